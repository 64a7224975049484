"""PyTorch's comparison of collectives names ranks as their group counts them."""

from __future__ import annotations

from ddpdoctor.analysis.crashes.debug_detail_errors import signatures_of
from ddpdoctor.analysis.crashes.failures import derive
from ddpdoctor.catalogue import error_table
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import RankExit
from tests.flight_records import STEP, Did, flights, waits
from tests.rank_ends import ended, raised

REDUCES, SENDS = (
    "SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[2]",
    "SequenceNumber=4, OpType=BROADCAST, TensorShape=[2]",
)


def refused(own: int, running: str, other: int, theirs: str) -> RankExit:
    return raised(
        f"Detected mismatch between collectives on ranks. Rank {own} is running collective: CollectiveFingerPrint({running}), "
        f"but Rank {other} is running collective: CollectiveFingerPrint({theirs})."
    )


def test_ranks_of_a_group_are_believed_about_themselves_alone() -> None:
    # the group is of ranks 2 and 3, which it counts as 0 and 1
    evidence = ended(None, None, refused(0, REDUCES, 1, SENDS), refused(1, SENDS, 0, REDUCES))
    exits = evidence.per_rank(RankExit)
    assert isinstance(exits, PerRank)
    told = signatures_of(derive(exits, None, error_table()).all)
    assert told is not None
    assert {rank: one.op for rank, one in told.made.items()} == {2: "all_reduce", 3: "broadcast"}


def test_the_recorder_comes_first() -> None:
    ends = {rank: (refused(rank, SENDS, 1 - rank, REDUCES),) for rank in range(2)}
    calls = [[STEP, waits(Did("barrier"))], [STEP, waits(STEP)]]
    (finding,) = [found for found in diagnose(flights(*calls, facts=ends)).findings if found.explained_by is None]
    assert finding.message.startswith("rank 0 called barrier #2 where rank 1 called all_reduce #2")
