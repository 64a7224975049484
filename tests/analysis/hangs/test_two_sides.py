"""Few ranks that wait for all others, which wait for these few: the few left calls out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

SHARDS = {"left": (0, 1, 2, 3, 8), "right": (4, 5, 6, 7, 9)}
WORLD = 10


def active(made: list[Did]) -> FlightRecord:
    """A dump of active entries alone: nothing tells how many calls ranks have made before."""
    found = record(made, world=WORLD, waited=500.0, lost=90)
    groups = tuple(replace(one, last_enqueued=1, last_completed=0) for one in found.groups)
    return replace(found, groups=groups)


def shard(name: str) -> FlightRecord:
    return active([waits(Did("all_gather", group=name, members=SHARDS[name]))])


@pytest.mark.parametrize("few", [(8, 9), (3, 7)])
def test_the_few_that_went_on_to_a_call_of_all_left_out_what_the_others_wait_in(few: tuple[int, ...]) -> None:
    at_the_end = active([waits(Did("barrier"))])
    ranks = [shard("left" if rank in SHARDS["left"] else "right") for rank in range(WORLD)]
    (finding,) = diagnose(flights(*(at_the_end if rank in few else ranks[rank] for rank in range(WORLD)))).findings
    assert (finding.code, finding.ranks) == ("DDP305", few)


def test_one_rank_that_went_on_is_named_where_groups_have_two_members() -> None:
    """In a group of two, those that wait are as many as those that are absent."""
    groups = {"1": (0, 9), "2": (1, 9), "3": (2, 3, 4, 5, 6, 7, 8, 9)}
    others = [
        active([waits(Did("all_gather", group=name, members=members))])
        for name, members in groups.items()
        for _ in members[:-1]
    ]
    (finding,) = diagnose(flights(*others, active([waits(Did("barrier"))]))).findings
    assert (finding.code, finding.ranks) == ("DDP305", (9,))


def test_as_many_on_both_sides_are_a_deadlock() -> None:
    at_the_end = active([waits(Did("barrier"))])
    few = (0, 1, 8, 4, 5)
    ranks = [shard("left" if rank in SHARDS["left"] else "right") for rank in range(WORLD)]
    (finding,) = diagnose(flights(*(at_the_end if rank in few else ranks[rank] for rank in range(WORLD)))).findings
    assert finding.code == "DDP312"


def test_many_that_wait_for_one_in_their_group_left_nothing_out_for_it() -> None:
    """Ranks 0 to 2 wait for rank 3, which went on to a call of its pair with rank 2; all others wait for ranks 0 to 2."""
    few = [active([waits(Did("all_gather", group="few", members=(0, 1, 2, 3)))])] * 3
    one = active([waits(Did("all_reduce", group="pair", members=(2, 3))), waits(Did("barrier"))])
    shared = Did("all_gather", group="shared", members=(2, 4, 5, 6, 7, 8, 9))
    others = [active([waits(shared), waits(Did("barrier"))])] * (WORLD - 4)
    findings = diagnose(flights(*few, one, *others)).findings
    assert (0, 1, 2) not in {finding.ranks for finding in findings}
