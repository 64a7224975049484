"""Two collectives of two groups that one rank queued in another order than the ranks with its part in other groups."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup
from tests.flight_records import STEP, Did, flights, record, waits

PAIRS = 4


def program(rank: int, *, exchanged: bool = False) -> FlightRecord:
    """Two steps of a rank in two groups with its neighbour, the calls of the second one queued and not through."""
    members = (rank - rank % 2, rank - rank % 2 + 1)
    one = Did("all_reduce", group=f"1{members[0]}", members=members, line=70)
    other = Did("all_gather", group=f"2{members[0]}", members=members, line=80)
    stuck = members == (4, 5)
    last = [other, one] if exchanged else [one, other]
    made = record([STEP, one, other, *(map(waits, last) if stuck else last), waits(STEP)], world=2 * PAIRS)
    return replace(made, groups=tuple(map(described, made.groups)))


def described(group: ProcessGroup) -> ProcessGroup:
    """The group with the description that it has on every rank."""
    return replace(group, description={"1": "TENSOR", "2": "EMBEDDING"}.get(group.name[0], "default_pg"))


def job(odd: int | None) -> Evidence:
    return flights(*(program(rank, exchanged=rank == odd) for rank in range(2 * PAIRS)))


def test_the_rank_that_exchanged_two_calls_is_named() -> None:
    for odd in (4, 5):
        (finding,) = diagnose(job(odd)).findings
        assert (finding.code, finding.ranks) == ("DDP312", (odd,))


def test_the_rank_that_made_a_call_of_all_first_is_named_where_its_peer_waits_for_its_device() -> None:
    """Rank 5 has enqueued both calls, in the wrong order, and rank 4 does not come to the one that all others wait in."""
    one = [program(rank) for rank in range(2 * PAIRS)]
    pair = Did("all_reduce", group="14", members=(4, 5), line=70)
    for rank, last in ((4, [pair]), (5, [STEP, pair])):
        made = record([STEP, pair, Did("all_gather", group="24", members=(4, 5), line=80), *map(waits, last)], world=8)
        one[rank] = replace(made, groups=tuple(map(described, made.groups)))
    others = [through_with_its_pair(rank) if rank not in (4, 5) else one[rank] for rank in range(2 * PAIRS)]
    (finding,) = diagnose(flights(*others)).findings
    assert (finding.code, finding.ranks) == ("DDP312", (5,))


def through_with_its_pair(rank: int) -> FlightRecord:
    """A rank of another pair, which made the call of its pair and waits in the one of all."""
    members = (rank - rank % 2, rank - rank % 2 + 1)
    pair = Did("all_reduce", group=f"1{members[0]}", members=members, line=70)
    both = Did("all_gather", group=f"2{members[0]}", members=members, line=80)
    made = record([STEP, pair, both, pair, waits(STEP)], world=2 * PAIRS)
    return replace(made, groups=tuple(map(described, made.groups)))


def test_nobody_is_called_out_of_order_where_all_queued_alike() -> None:
    assert "DDP312" not in {finding.code for finding in diagnose(job(None)).findings}


def test_a_call_queued_behind_one_of_all_ranks_is_no_missing_send() -> None:
    """Rank 3 went on to the call of all ranks before that of its pair; rank 0 waits meanwhile in a send to rank 2."""
    pair = Did("all_gather", group="12", members=(2, 3), line=80)
    send = Did("send", line=82, peers=(0, 2))
    (finding,) = diagnose(
        flights(
            record([STEP, waits(send)], world=PAIRS),
            record([STEP, waits(STEP)], world=PAIRS),
            record([STEP, waits(pair)], world=PAIRS),
            record([STEP, waits(STEP), waits(pair)], world=PAIRS),
        )
    ).findings
    assert (finding.code, finding.ranks) == ("DDP312", (2, 3))
