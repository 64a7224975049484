"""Of two ranks, the one that asked its framework to stop has left the loop in which the other still trains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desyncs
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, RankExit, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from tests.flight_records import STEP, TRAIN, Did, flights, waits

FORWARD = Forward(number=1, place=Frame(file=TRAIN, line=60, function="train_step"))
EVALUATES = waits(Did("all_gather", line=86, function="run_validation"))


def asked(test: str) -> SourceCode:
    """The job's source, in which `engine.terminate()` stands under `test`."""
    condition = Condition(line=12, test=test, branch=0)
    request = Request(
        file=TRAIN, line=13, function="train_step", text="engine.terminate()", wants="stop", conditions=(condition,)
    )
    places = (CodePlace(file=TRAIN, line=61, function="train_step"),)
    return SourceCode(places=places, requests=(request,))


def judged(*calls: list[Did], test: str) -> tuple[Cause, tuple[int, ...], bool]:
    """The cause, the ranks named, and whether it is tied."""
    facts = {rank: (CollectiveCalls(forwards=(FORWARD,)),) for rank in range(len(calls))}
    found = derived(flights(*calls, facts=facts, job=(asked(test),)), Desyncs)
    assert found is not None
    (desync,) = found.found
    return desync.cause, desync.minority, desync.tied


def test_the_test_of_the_rank_and_the_places_of_both_name_it() -> None:
    rank_1_evaluates = [STEP, waits(STEP)], [STEP, EVALUATES]
    assert judged(*rank_1_evaluates, test="idist.get_rank() == 1") == (Cause.LEFT, (1,), False)


def test_a_rank_that_still_trains_has_not_stopped_whatever_the_source_asks_for() -> None:
    rank_1_evaluates = [STEP, waits(STEP)], [STEP, EVALUATES]
    assert judged(*rank_1_evaluates, test="idist.get_rank() == 0")[2], "rank 0 still trains"
    assert judged(*rank_1_evaluates, test="rank % 2")[2], "the test names no rank"


def test_one_of_many_that_asked_to_stop_and_went_on_behind_its_training_has_left_its_loop() -> None:
    """Without the request, what it calls there would be a call too many."""
    rank_2_evaluates = [STEP, waits(STEP)], [STEP, waits(STEP)], [STEP, EVALUATES]
    assert judged(*rank_2_evaluates, test="args.process_index == 2") == (Cause.LEFT, (2,), False)
    assert judged(*rank_2_evaluates, test="args.process_index == 1")[0] is not Cause.LEFT, "rank 1 still trains"


@pytest.mark.parametrize(
    ("test", "shown"),
    [("engine.state.output < 0.02", True), ("engine.state.epoch == limit", False), ("rank == 0", False)],
)
def test_a_rank_that_ended_may_have_asked_to_stop_by_a_value_of_its_own(test: str, *, shown: bool) -> None:
    job = flights(
        [STEP, waits(STEP)],
        [STEP],
        facts={1: [RankExit(exit_code=0)]},
        job=(asked(test),),
    )
    (found, *_) = diagnose(job).findings
    assert (found.code, found.ranks) == ("DDP306", (1,))
    assert [where.line for where in found.where if where.rank == 1] == ([13] if shown else [])


FIT = Frame(
    file="/venv/lib/python3.11/site-packages/lightning/pytorch/loops/training_epoch_loop.py", line=153, function="run"
)
LOOP_OF_THE_FRAMEWORK = CodePlace(
    file=FIT.file,
    line=FIT.line,
    function=FIT.function,
    loops=(Loop(line=151, head="while not self.done", jumps=(Jump(line=156, word="break"),)),),
)


def drew_in_a_framework(batches: int) -> CollectiveCalls:
    """A rank whose framework drew so many of 9 batches."""
    stack = (Frame(file=TRAIN, line=60, function="train_step"), FIT)
    marks = (StepMark(iteration=one, seq=one, in_pass=one, of=9, forwards=one - 1) for one in range(1, batches + 1))
    forwards = (Forward(number=one, place=stack[0], stack=stack) for one in range(1, batches + 1))
    return CollectiveCalls(steps=tuple(marks), forwards=tuple(forwards))


def test_the_loop_of_a_framework_ends_as_the_program_asked_it_to() -> None:
    source = asked("engine.state.output < 0.02")
    job = flights(
        [STEP, STEP, waits(STEP)],
        [STEP, STEP],
        facts={0: [drew_in_a_framework(3)], 1: [drew_in_a_framework(2), RankExit(exit_code=0)]},
        job=(replace(source, places=(*source.places, LOOP_OF_THE_FRAMEWORK)),),
    )
    (found, *_) = diagnose(job).findings
    assert (found.code, found.ranks) == ("DDP306", (1,))
    assert [where.line for where in found.where if where.rank == 1] == [13, 156]
