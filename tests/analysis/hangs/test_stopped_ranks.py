"""A device that stopped in a call that has a root: its peers complete such a call without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.checks.ddp319_device_stopped import OF_A_ROOT, RULE
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

BROADCAST = Did("broadcast")


def told(*each: list[Did]) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.code, finding.ranks) for finding in diagnose(flights(*each)).findings]


def test_a_rank_that_alone_has_not_completed_a_broadcast_has_stopped() -> None:
    through = [STEP, BROADCAST, waits(STEP)]
    assert told(through, through, [STEP, waits(BROADCAST), waits(STEP)], through) == [("DDP319", (2,))]


@pytest.mark.parametrize("op", ["gather", "reduce", "_reduce_oop"])
def test_a_root_that_waits_for_a_device_that_stopped_is_not_accused(op: str) -> None:
    through, waiting = [STEP, Did(op), waits(STEP)], [STEP, waits(Did(op)), waits(STEP)]
    assert "DDP319" not in {code for code, _ in told(waiting, through, waiting, *[through] * 5)}
    assert told(waiting, *[through] * 7) == [("DDP319", (0,))]


@pytest.mark.parametrize("op", ["broadcast", "scatter"])
def test_ranks_that_have_not_completed_what_their_root_sent_have_stopped(op: str) -> None:
    through, waiting = [STEP, Did(op), waits(STEP)], [STEP, waits(Did(op)), waits(STEP)]
    assert told(through, waiting, waiting, *[through] * 5) == [("DDP319", (1, 2))]


def test_a_broadcast_that_only_its_root_has_completed_accuses_nobody() -> None:
    waiting = [STEP, waits(BROADCAST)]
    assert ("DDP319", (1, 2, 3)) not in told([STEP, BROADCAST, waits(STEP)], waiting, waiting, waiting)


def test_a_rank_that_waits_in_something_older_is_not_accused_of_the_broadcast() -> None:
    pair = Did("all_gather", group="1", members=(2, 3))
    through = [STEP, BROADCAST, waits(STEP)]
    behind = [STEP, waits(pair), waits(BROADCAST), waits(STEP)]
    found = told(through, through, behind, [STEP, replace(pair, done=False), BROADCAST, waits(STEP)])
    assert ("DDP319", (2,)) not in found


@pytest.mark.parametrize(("call", "remedy"), [(BROADCAST, OF_A_ROOT), (STEP, RULE.remedy)])
def test_a_rank_that_waits_in_a_broadcast_alone_may_have_given_another_root(call: Did, remedy: str) -> None:
    through = [STEP, call, waits(STEP)]
    (finding, *_) = diagnose(flights(through, through, [STEP, waits(call), waits(STEP)], through)).findings
    assert (finding.code, finding.remedy) == ("DDP319", remedy)
    assert ("another root" in finding.message) == (call is BROADCAST)


def test_a_rank_that_is_through_with_another_call_is_named_and_not_those_that_it_waits_for() -> None:
    """Rank 0 is through with a broadcast of its own where all others reduce, and waits for rank 1 to take what it sends."""
    sends = waits(Did("send", group="1", members=(0, 1), peers=(0, 1)))
    others = [STEP, waits(STEP)]
    assert told([STEP, BROADCAST, sends], others, others, others) == [("DDP301", (0,))]
    same = [STEP, waits(BROADCAST)]
    assert told([STEP, BROADCAST, sends], same, same, same)[:1] != [("DDP301", (0,))]


def active(made: list[Did], *, first: int, completed: int) -> FlightRecord:
    """What a rank of two waits in, and what its table of groups says."""
    held = record([waits(did) for did in made], world=2, first=first, lost=first - 1, waited=500.0)
    last = first + len(made) - 1
    return replace(held, groups=(replace(held.groups[0], last_enqueued=last, last_completed=completed),))


def test_a_rank_whose_peer_called_something_else_behind_it_has_not_stopped() -> None:
    """Rank 1 made an all_gather more: its broadcast #4 is no other call than #3 of rank 0, which is the root and through."""
    gather = Did("all_gather")
    peer = active([gather], first=4, completed=3)
    shifted = active([gather, BROADCAST, BROADCAST, gather], first=2, completed=1)
    findings = diagnose(flights(peer, shifted)).findings
    assert "DDP319" not in {finding.code for finding in findings}


def test_one_of_many_that_is_through_with_what_its_dump_does_not_hold_did_not_leave_all_others_stopped() -> None:
    """Dumps of active entries alone: rank 0 may have called something else, which ended without the others."""
    waiting = record([waits(STEP)], first=5, lost=4, waited=600.0)
    through = record([waits(Did("all_reduce", group="1", members=(0, 1)))], lost=9, waited=600.0)
    ended = replace(waiting.groups[0], last_enqueued=5, last_completed=5)
    others = replace(waiting, groups=(replace(ended, last_completed=4),))
    first = replace(through, groups=(*through.groups, ended))
    codes = {finding.code for finding in diagnose(flights(first, others, others, others)).findings}
    assert "DDP319" not in codes


def of_a_short_ring(completed: int | None) -> FlightRecord:
    """The last three of nine calls; the table of groups tells how many were completed."""
    held = record([waits(STEP)] * 3, first=7, lost=6, waited=600.0)
    return replace(held, groups=(replace(held.groups[0], last_enqueued=9, last_completed=completed),))


@pytest.mark.parametrize("completed", [3, None])
def test_a_table_without_a_completed_call_counts_none(completed: int | None) -> None:
    (finding, *_) = diagnose(flights(*map(of_a_short_ring, (5, completed, 5, 5)))).findings
    assert (finding.code, finding.ranks, finding.measured["completed"]) == ("DDP319", (1,), {"1": completed or 0})


def test_one_of_two_that_is_through_with_a_call_that_both_rings_have_lost_may_have_called_something_else() -> None:
    held = record([waits(STEP)] * 3, world=2, first=7, lost=6, waited=600.0)
    one, other = (
        replace(held, groups=(replace(held.groups[0], last_enqueued=9, last_completed=done),)) for done in (5, 4)
    )
    assert "DDP319" not in {finding.code for finding in diagnose(flights(one, other)).findings}


def test_what_a_dump_of_active_calls_alone_does_not_hold_is_complete_though_the_table_of_groups_lags_behind() -> None:
    """Rank 2 waits in call 5 as all do; its watchdog has noted three calls. The other calls wait in groups of their own."""
    records = []
    for rank, done in enumerate((4, 4, 3, 4)):
        later = [waits(Did("all_reduce", group=f"own {rank}", members=(rank, 4)))] * rank
        held = record([waits(STEP), *later], first=5, lost=4, waited=600.0)
        table = replace(held.groups[0], last_enqueued=5, last_completed=done)
        records.append(replace(held, groups=(table, *held.groups[1:])))
    assert "DDP319" not in {finding.code for finding in diagnose(flights(*records)).findings}
