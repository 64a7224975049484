"""Older dumps of NCCL list the groups of a rank and not their members: the ranks that list a group are these."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.collectives.group_members import with_listed_members
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

WORLD = 8
PAIRS = {rank: (rank % 4, rank % 4 + 4) for rank in range(WORLD)}


def old(made: list[Did]) -> FlightRecord:
    """A dump that tells no members, and describes its groups."""
    found = record(made, world=WORLD, waited=500.0)
    groups = (replace(one, ranks=None, description="default_pg" if one.name == "0" else "PAIR") for one in found.groups)
    return replace(found, version="2.1", groups=tuple(groups))


def of_pair(rank: int, op: str = "all_reduce", way: tuple[int, int] | None = None) -> Did:
    return Did(op, group=f"pair {rank % 4}", members=PAIRS[rank], peers=way)


def told(evidence: Evidence) -> list[tuple[str, tuple[int, ...], str]]:
    return [(finding.code, finding.ranks, finding.message) for finding in diagnose(evidence).findings]


def job(gone: int | None, *others: int) -> Evidence:
    """Ranks wait for `gone` in its pair, and all others for its peer; `others` left no dump, either."""
    records: list[FlightRecord | None] = []
    for rank in range(WORLD):
        peer = gone is not None and rank != gone and PAIRS[rank] == PAIRS[gone]
        made = (
            [STEP, of_pair(rank), waits(of_pair(rank)), waits(STEP)]
            if peer
            else [STEP, of_pair(rank), of_pair(rank), waits(STEP)]
        )
        records.append(None if rank in (gone, *others) else old(made))
    return flights(*records)


def test_the_rank_that_a_pair_lacks_is_the_one_without_a_dump() -> None:
    ((code, ranks, message),) = told(job(2))
    assert (code, ranks) == ("DDP408", (2,))
    assert "rank 2 left no dump" in message


def test_a_transfer_that_stands_is_told_with_ranks_of_the_job() -> None:
    """Places in a group are no ranks."""
    through = [old([STEP, of_pair(rank), waits(STEP)]) for rank in range(WORLD)]
    for rank, op in ((1, "send"), (5, "recv")):
        through[rank] = old([STEP, of_pair(rank), waits(of_pair(rank, op, (0, 1))), waits(STEP)])
    ((code, _, message),) = told(flights(*through))
    assert code == "DDP314"
    assert "all 2 ranks (1,5) are in the send from rank 1 to rank 5" in message


def test_members_stay_unknown_where_dumps_of_several_ranks_are_missing() -> None:
    evidence = job(2, 5)
    known = {
        (group.name, group.ranks)
        for entry in with_listed_members(evidence.per_rank(FlightRecord))
        for group in entry.value.groups
    }
    assert ("0", tuple(range(WORLD))) in known
    assert ("pair 2", None) in known
    assert ("pair 3", (3, 7)) in known


def test_members_that_dumps_tell_are_kept() -> None:
    evidence = flights([STEP, waits(STEP)], [STEP, waits(STEP)], None, None)
    records = evidence.per_rank(FlightRecord)
    assert with_listed_members(records) is records
