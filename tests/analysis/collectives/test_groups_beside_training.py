"""A thread that reports in a group of its own while the training hangs: its calls are no part of the hang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.analysis.collectives import test_multithreaded
from tests.flight_records import STEP, Did, flights, waits

BEAT = Did("all_reduce", line=21, function="run", sizes=((1,),), group="beats")
VALIDATE = Did("all_reduce", line=70, function="validate", sizes=((2,),), group="metrics")
TRAINED = [STEP, BEAT, STEP, BEAT, STEP]
LATER = [BEAT] * 12  # for 1.2 s


def threaded(made: list[Did]) -> FlightRecord:
    """The record of a rank whose groups are of all three ranks and whose `run` was called by a thread."""
    found = test_multithreaded.threaded(made)
    return replace(found, groups=tuple(replace(group, ranks=(0, 1, 2)) for group in found.groups))


def told(*each: FlightRecord) -> list[str]:
    return [finding.message for finding in diagnose(flights(*each, backend="gloo")).findings]


def test_a_heartbeat_after_the_hang_does_not_tell_which_side_called_more() -> None:
    """By the last beat rank 0 has made one step more than its peers, which is what it did instead of `validate`."""
    left_out = threaded([*TRAINED, waits(STEP), *LATER])
    others = threaded([*TRAINED, waits(VALIDATE), *LATER])
    (message,) = told(left_out, others, others)
    assert message == (
        "ranks wait for each other in different groups: rank 0 waits in all_reduce #4 of the default group, ranks 1-2 wait in "
        "all_reduce #1 of group metrics"
    )


@pytest.mark.parametrize("named", [0, 2])
def test_a_rank_that_still_reports_and_does_not_come_to_the_step_is_named(named: int) -> None:
    each = [threaded([*TRAINED, waits(STEP), *LATER])] * 3
    each[named] = threaded([*TRAINED, *LATER])
    (message,) = told(*each)
    assert message.startswith(f"rank {named} did not come to all_reduce #4")


@pytest.mark.parametrize("named", [0, 2])
def test_a_thread_that_saves_while_its_rank_is_stuck_does_not_tell_that_the_rank_left_a_call_out(named: int) -> None:
    """All save once more just after the last step. No rank waits for longer than that, as where calls are queued."""
    saved, step = replace(BEAT, op="barrier", members=(*range(6),)), replace(STEP, members=(*range(6),))
    made = [step, saved] * 3
    each = [test_multithreaded.threaded([*made, waits(step), saved])] * 6
    each[named] = test_multithreaded.threaded([*made, saved])
    each = [
        replace(one, groups=tuple(replace(group, backend="nccl", ranks=(*range(6),)) for group in one.groups))
        for one in each
    ]
    (finding,) = diagnose(flights(*each)).findings
    assert (finding.code, finding.ranks) == ("DDP307", (named,))


def test_a_group_in_which_a_thread_waits_itself_is_part_of_the_hang() -> None:
    """Nothing goes on there since the ranks wait: the thread of rank 1 is the one that does not come."""
    stands = [*TRAINED, waits(replace(BEAT, op="barrier"))]
    (message,) = told(threaded(stands), threaded(TRAINED), threaded(stands))
    assert "barrier #3" in message
    assert message.startswith("rank 1 ")
