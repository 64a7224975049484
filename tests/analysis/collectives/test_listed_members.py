"""Older dumps of NCCL list the groups of a rank and not their members: the ranks that list a group are these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.recorders.group_members import with_listed_members
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.ranks import JobSize
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


def nameless(made: list[Did], world: int) -> FlightRecord:
    """A dump that tells no members, with torch's description of groups that the program gave none."""
    found = record(made, world=world, waited=500.0)
    groups = (replace(one, ranks=None, description=one.description or "undefined") for one in found.groups)
    return replace(found, version="2.1", groups=tuple(groups))


def of_three_and_two(rank: int) -> Did:
    name, members = ("1", (0, 1, 2)) if rank < 3 else ("2", (3, 4))
    return Did("all_gather", group=name, members=members)


def test_the_last_rank_without_a_dump_is_seen_where_the_size_of_the_job_is_known() -> None:
    ranks = [nameless([STEP, waits(STEP)], 4)] * 3
    ((code, named, message),) = told(flights(*ranks, None, job=(JobSize(ranks=4),)))
    assert (code, named) == ("DDP408", (3,))
    assert message == "ranks 0-2 wait in all_reduce #2, and rank 3 left no dump"
    ((code, _, message),) = told(flights(*ranks, job=(JobSize(ranks=3),)))
    assert code == "DDP314"
    assert "all 3 ranks (0-2) are in all_reduce #2" in message
    assert "nobody is missing" in message


def test_nobody_is_said_to_be_there_whom_only_the_size_of_the_job_would_tell() -> None:
    (finding,) = diagnose(flights(*[nameless([STEP, waits(STEP)], 4)] * 3, None)).findings
    assert finding.code == "DDP314"
    assert "nobody that left a dump is missing" in finding.message
    assert "all 3 ranks" not in finding.message
    assert finding.details[0].endswith("if there is one above rank 2, see first why it left no dump")
    (known,) = diagnose(flights(*[record([STEP, waits(STEP)], world=3, waited=500.0)] * 3)).findings
    assert "all 3 ranks (0-2)" in known.message
    assert "nobody is missing" in known.message


def test_groups_without_a_name_are_not_taken_for_groups_of_one_size() -> None:
    """Rank 2 left no dump: its group has as many ranks with one as the other group."""
    made = [nameless([STEP, waits(of_three_and_two(rank))], 6) for rank in range(3)]
    through = [nameless([STEP, of_three_and_two(rank), waits(STEP)], 6) for rank in (3, 4)]
    last = nameless([STEP, waits(STEP)], 6)
    ((code, named, _),) = told(flights(*made[:2], None, *through, last, job=(JobSize(ranks=6),)))
    assert (code, named) == ("DDP408", (2,))
    evidence = flights(*made, *through, last)
    listed = with_listed_members(evidence.per_rank(FlightRecord), JobSize(ranks=6))
    found = {(group.name, group.ranks) for entry in listed for group in entry.value.groups}
    assert found == {("0", tuple(range(6))), ("1", (0, 1, 2)), ("2", (3, 4))}


@pytest.mark.parametrize(("older", "known"), [(True, {"DDP408"}), (False, {"DDP319"})])
def test_a_rank_that_waits_before_in_a_group_of_unknown_members_has_no_stopped_device(
    *, older: bool, known: set[str]
) -> None:
    """Ranks 3 and 4 have not completed what the others have; rank 5 left no dump."""
    mine = [of_three_and_two(rank) for rank in range(5)]
    ahead = [[STEP, one, STEP, STEP, waits(STEP)] for one in mine[:3]]
    late = [[STEP, waits(one) if older else one, waits(STEP), waits(STEP)] for one in mine[3:]]
    ranks = [nameless(made, 6) for made in (*ahead, *late)]
    assert {code for code, _, _ in told(flights(*ranks, None, job=(JobSize(ranks=6),)))} == known


def test_members_that_dumps_tell_are_kept() -> None:
    evidence = flights([STEP, waits(STEP)], [STEP, waits(STEP)], None, None)
    records = evidence.per_rank(FlightRecord)
    assert with_listed_members(records) is records
