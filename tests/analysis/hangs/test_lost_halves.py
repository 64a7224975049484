"""A send or receive that a batch lacks, in a ring buffer that has lost the batch: NCCL's count of operations still tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

LAST_BATCH = 9


def _record(rank: int, halves: int | None, *, stands: bool, world: int = 6) -> FlightRecord:
    """Rank 0 and 1, 2 and 3, ... exchange data in batches, then all meet; of batches the ring holds the last one."""
    pair = (rank - rank % 2, rank - rank % 2 + 1)
    group, here = str(1 + rank // 2), rank % 2
    batch = [
        Did("send", group=group, members=pair, peers=(here, 1 - here)),
        Did("recv", group=group, members=pair, peers=(1 - here, here)),
        Did("coalesced", group=group, members=pair, peers=(0, 1)),
    ]
    made = [*(waits(one) if stands else one for one in batch), waits(Did("all_reduce"))]
    one = record(made, world=world, waited=500.0, lost=90)
    groups = [
        replace(known, halves=halves, description="PIPELINE") if known.name == group else known for known in one.groups
    ]
    return replace(one, groups=tuple(groups), seq=(*[LAST_BATCH] * len(batch), 1))


@pytest.mark.parametrize("pairs", [2, 3])
def test_the_rank_whose_batches_lack_a_half_is_named(pairs: int) -> None:
    """Of two pairs, three ranks have issued as many as their like, and one has not."""
    issued = [2 * LAST_BATCH - (rank == 1) for rank in range(2 * pairs)]
    each = [_record(rank, halves, stands=rank == 0, world=2 * pairs) for rank, halves in enumerate(issued)]
    evidence = flights(*each)
    graph = derived(evidence, WaitForGraph)
    assert graph is not None
    assert (graph.reason, graph.ranks) == (Reason.LEFT_OUT, (1,))
    finding = diagnose(evidence).findings[0]
    assert (finding.code, [*finding.ranks]) == ("DDP313", [1])


@pytest.mark.parametrize("halves", [None, 2 * LAST_BATCH])
def test_without_a_count_or_a_difference_nobody_is_said_to_have_left_one_out(halves: int | None) -> None:
    each = [_record(rank, halves, stands=rank == 0) for rank in range(6)]
    graph = derived(flights(*each), WaitForGraph)
    assert graph is None or graph.reason not in (Reason.LEFT_OUT, Reason.EXTRA)
