"""A rank that makes other calls than its peers in several groups: one cause, one finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

WORLD, TURNS = 4, 3


def dump(rank: int, odd: int) -> FlightRecord:
    """A rank of a mesh of two by two; the odd one has come to other code, which queues other calls of both of its groups."""
    tensor, data = (rank - rank % 2, rank - rank % 2 + 1), (rank % 2, rank % 2 + 2)

    def calls(of_tensor: str, of_data: str) -> list[Did]:
        return [
            Did(of_tensor, group=f"tp{tensor[0]}", members=tensor),
            Did(of_data, group=f"dp{data[0]}", members=data),
        ]

    turn = calls("all_gather", "reduce_scatter")
    last = calls("broadcast", "all_reduce") if rank == odd else turn
    ends = [waits(did) if did.members and odd in did.members else did for did in last]
    found = record([*turn * TURNS, *ends], world=WORLD, waited=500.0)
    return replace(found, groups=tuple(replace(group, description=group.name[:2]) for group in found.groups))


@pytest.mark.parametrize("odd", range(WORLD))
def test_the_odd_rank_is_one_finding(odd: int) -> None:
    findings = diagnose(flights(*(dump(rank, odd) for rank in range(WORLD)))).findings
    assert [(finding.code, finding.ranks) for finding in findings] == [("DDP301", (odd,))]


def test_a_group_that_shows_one_of_two_ranks_adds_no_finding() -> None:
    """Ranks 0 and 2 take another branch, and a group that has rank 0 alone of the two shows it first."""
    some = (0, 1, 3, 5)

    def branch(rank: int) -> list[Did]:
        other = rank in (0, 2)
        own = Did("broadcast" if other else "all_gather", line=70, group="1", members=some)
        return [*([waits(own)] if rank in some else []), waits(Did("broadcast" if other else "all_reduce", line=80))]

    made = (record([Did("all_reduce"), *branch(rank)], world=8, waited=500.0) for rank in range(8))
    findings = diagnose(flights(*made)).findings
    assert [(finding.code, finding.ranks) for finding in findings] == [("DDP301", (0, 2))]
