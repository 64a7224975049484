"""A thread calls collectives in the group that training uses too: no rank is blamed for what they met in."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit, StepMark
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import CodePlace, Condition, Loop
from tests.flight_records import STEP, TRAIN, Did, flights, record, waits
from tests.hangs import STDLIB, rank
from tests.rank_ends import WRONG_SIZE

BEAT = Did("all_reduce", line=21, function="run", sizes=((1,),))
FORWARD = Did("broadcast", line=20, function="train_step")
ROOT = Frame(file=f"{STDLIB}/threading.py", line=1002, function="_bootstrap")


def threaded(made: list[Did]) -> FlightRecord:
    """The record of a rank whose `run` was called by a thread."""
    plain = record(made, backend="gloo", world=3)
    mains = {number for number, frame in enumerate(plain.frames) if frame.function == "main"}
    run = next(number for number, frame in enumerate(plain.frames) if frame.function == "run")
    stacks = (
        (*(frame for frame in stack if frame not in mains), len(plain.frames)) if run in stack else stack
        for stack in plain.stacks
    )
    return replace(plain, frames=(*plain.frames, ROOT), stacks=tuple(stacks))


def marks(*seq: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=made) for number, made in enumerate(seq)))


def sick(*each: FlightRecord) -> Evidence:
    facts = {0: [marks(1, 3, 5)], 1: [marks(1, 3, 5)], 2: [marks(1, 3, 6)]}
    return flights(*each, backend="gloo", facts=facts)


IN_TURN = [STEP, BEAT, STEP, BEAT, STEP, BEAT]


def test_two_threads_in_one_group_are_the_cause_and_no_rank_is() -> None:
    here, there = [*IN_TURN, waits(STEP)], [*IN_TURN, waits(BEAT)]
    (finding,) = diagnose(sick(threaded(here), threaded(here), threaded(there))).findings
    assert (finding.code, finding.ranks) == ("DDP301", ())
    assert finding.message == (
        "ranks 0-2 call collectives of the default group from two threads, so their order is nondeterministic; "
        "all_reduce #7 was not the same call on every rank"
    )
    assert {(where.rank, where.function) for where in finding.where} == {
        (0, "train_step"),
        (1, "train_step"),
        (2, "run"),
    }
    assert "new_group" in finding.remedy


def test_one_meeting_with_a_call_of_another_shape_is_enough() -> None:
    here, there = record([STEP, waits(STEP)], backend="gloo", world=2), threaded([STEP, waits(BEAT)])
    (finding,) = diagnose(flights(here, there, backend="gloo")).findings
    assert (finding.code, finding.ranks) == ("DDP301", ())


def test_two_operations_that_two_threads_exchanged_are_enough() -> None:
    """The first call of the thread: rank 0 came to its next forward before it, and makes it behind."""
    here, there = [STEP, waits(FORWARD), waits(BEAT)], [STEP, waits(BEAT), waits(FORWARD)]
    facts = {0: [marks(1, 1)], 1: [marks(1, 2)], 2: [marks(1, 2)]}
    findings = diagnose(flights(*map(threaded, (here, there, there)), backend="gloo", facts=facts)).findings
    assert [(one.code, one.ranks) for one in findings] == [("DDP301", ())]


def test_a_rank_whose_thread_makes_no_call_is_told_from_the_others() -> None:
    """Rank 0's thread was never started: that is no race."""
    here, there = [STEP, waits(FORWARD)], [STEP, waits(BEAT), waits(FORWARD)]
    plain = record(here, backend="gloo", world=3)
    finding, *_ = diagnose(flights(plain, threaded(there), threaded(there), backend="gloo")).findings
    assert (finding.code, finding.ranks) == ("DDP305", (0,))


def test_gloo_aborted_two_ranks_and_the_third_still_shows_that_threads_called_in_turns() -> None:
    aborted = RankExit(exit_code=-6, tail=(WRONG_SIZE,))
    record = threaded([*IN_TURN, waits(STEP)])
    (finding,) = diagnose(flights(None, None, record, backend="gloo", facts={0: [aborted], 1: [aborted]})).findings
    assert (finding.code, finding.ranks) == ("DDP302", ())
    assert "two threads" in finding.details[0]
    assert "new_group" in finding.remedy


def test_a_thread_that_does_all_the_training_is_no_cause() -> None:
    here, there = [BEAT] * 6 + [waits(Did("barrier"))], [BEAT] * 6 + [waits(BEAT)]
    finding, *_ = diagnose(flights(*map(threaded, (here, here, there)), backend="gloo")).findings
    assert finding.ranks == (2,)


def test_a_call_of_a_thread_for_which_its_rank_waits_stands_under_the_conditions_of_the_waiting_line() -> None:
    """Rank 0 saves a checkpoint in a thread, with a barrier in it, under `if rank == 0`, and joins the thread there."""
    in_the_loop = Loop(line=55, head="for images, labels in loader")
    only_rank_0 = Condition(line=70, test="step == 5 and rank == 0", branch=0)
    code = (
        CodePlace(file=TRAIN, line=61, function="train_step", loops=(in_the_loop,)),
        CodePlace(file=TRAIN, line=72, function="train_step", loops=(in_the_loop,), conditions=(only_rank_0,)),
        CodePlace(file=TRAIN, line=21, function="run"),
    )
    joins = (
        Frame(file=f"{STDLIB}/threading.py", line=1119, function="join"),
        Frame(file=TRAIN, line=72, function="train_step"),
        Frame(file=TRAIN, line=100, function="main"),
    )
    saves = threaded([STEP, STEP, waits(Did("barrier", line=21, function="run"))])
    steps = record([STEP, STEP, waits(STEP)], backend="gloo", world=3)

    finding = diagnose(flights(saves, steps, steps, backend="gloo", code=code, facts={0: rank(joins)})).findings[0]

    assert (finding.code, finding.ranks) == ("DDP305", (0,))
    assert finding.message == "rank 0 called barrier #3 that ranks 1-2 never call"
    assert finding.where[0].line == 21
    assert finding.where[0].note.startswith("barrier #3, inside `if step == 5 and rank == 0` (train.py:70)")
