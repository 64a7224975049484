"""Calls that ranks have queued behind the one that they wait in: that peers lack them is no cause."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

WORLD = 4
SHARDS = Did("all_reduce", line=70, group="dp", members=tuple(range(WORLD)))


def dump(rank: int) -> FlightRecord:
    """Odd ranks call two groups in another order. The first rank has queued a send that the second has not come to."""
    both = [SHARDS, STEP] if rank % 2 else [STEP, SHARDS]
    behind = [Did("send", peers=(0, 1))] if rank == 0 else []
    return record([STEP, SHARDS, *map(waits, [*both, *behind])], world=WORLD, waited=500.0)


def test_two_groups_in_opposite_order_are_the_cause_and_no_send_behind_them() -> None:
    (finding,) = diagnose(flights(*map(dump, range(WORLD)))).findings
    assert (finding.code, finding.ranks) == ("DDP312", (0, 1, 2, 3))


def test_ranks_of_unknown_age_are_no_deadlock_where_all_other_calls_are_young() -> None:
    """The clock of a host may be behind that of the files: then nothing tells how old its calls are."""
    pair = Did("all_reduce", line=70, group="dp", members=(0, 1))
    made = [[STEP, pair, *map(waits, calls)] for calls in ([STEP, pair], [pair, STEP])]
    behind = [record(calls, world=WORLD, waited=None) for calls in made]
    others = [record([STEP, waits(STEP)], world=WORLD, waited=0.4)] * 2
    assert not diagnose(flights(*behind, *others)).findings
