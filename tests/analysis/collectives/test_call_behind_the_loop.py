"""A call in a helper stands behind the training loop where a later line of the loop's caller led to it."""

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDepartures
from ddpdoctor.derivation import derived
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, SourceCode
from tests.drawn_batches import drew
from tests.flight_records import STEP, TRAIN, Did, flights, waits

LOOP = Loop(line=55, head="for images, labels in loader")
CODE = SourceCode(places=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),))
WAY = (Frame(file=TRAIN, line=61, function="train_step"), Frame(file=TRAIN, line=100, function="main"))


def trained(made: CollectiveCalls, *calls: CollectiveCall) -> CollectiveCalls:
    """The same rank, whose forwards `main` led to."""
    forwards = tuple(replace(forward, place=WAY[0], stack=WAY) for forward in made.forwards)
    return replace(made, forwards=forwards, calls=calls)


@pytest.mark.parametrize(("line", "behind"), [(103, True), (100, False), (98, False)])
def test_the_lines_that_led_to_a_call_tell_whether_it_is_behind_the_loop(line: int, behind: bool) -> None:
    """In the same line of the caller, or above it, it may be a call of the loop or of the next pass."""
    reduces = Frame(file=TRAIN, line=9, function="reduce_mean")
    call = CollectiveCall(op="all_reduce", group="0", seq=4, place=reduces, returned=False)
    early, others = trained(drew(1, 2, of=2), call), trained(drew(1, 2, 3, of=3))
    last = waits(Did("all_reduce", line=9, function="reduce_mean", main=line))
    evidence = flights(
        [STEP, STEP, STEP, last],
        [STEP, STEP, STEP, waits(STEP)],
        facts={0: (early,), 1: (others,)},
        job=(CODE,),
    )
    found = derived(evidence, LoopDepartures)
    assert found is not None
    assert (found.at_the_end is not None) is behind


@pytest.mark.parametrize(
    ("loops", "condition", "ended"), [((), None, True), ((LOOP,), None, False), ((), "rank == 0", False)]
)
def test_a_helper_called_below_the_loop_tells_that_a_loader_without_a_length_had_fewer_batches(
    loops: tuple[Loop, ...], condition: str | None, *, ended: bool
) -> None:
    """Not where the helper is called within that loop, or where others may leave its call out."""
    conditions = (Condition(line=102, test=condition, branch=0),) if condition is not None else ()
    in_loop, below = Frame(file=TRAIN, line=61, function="main"), Frame(file=TRAIN, line=9, function="evaluate")
    code = SourceCode(
        places=(
            CodePlace(file=TRAIN, line=61, function="main", loops=(LOOP,)),
            CodePlace(file=TRAIN, line=103, function="main", loops=loops, conditions=conditions),
        )
    )
    call = CollectiveCall(op="all_gather", group="0", seq=3, place=below, returned=False)
    marks = [drew(1, 2, of=None), drew(1, 2, 3, of=None)]
    facts = {
        rank: (replace(one, forwards=tuple(replace(each, place=in_loop, stack=(in_loop,)) for each in one.forwards)),)
        for rank, one in enumerate(marks)
    }
    facts[0] = (replace(facts[0][0], calls=(call,)),)
    last = waits(Did("all_gather", line=9, function="evaluate", main=103))
    found = derived(flights([STEP, STEP, last], [STEP, STEP, waits(STEP)], facts=facts, job=(code,)), LoopDepartures)
    assert found is not None
    told = found.first is not None and (found.first.how, found.first.ranks, found.first.batches)
    assert told == ((DepartureKind.ENDED, (0,), 2) if ended else False)


def test_a_rank_that_draws_more_than_its_loader_says_has_that_many_batches() -> None:
    """A batch sampler that yields 3 batches where its length, and that of all others, is 2."""
    facts = {0: (trained(drew(1, 2, 3, of=2)),), 1: (trained(drew(1, 2, of=2)),), 2: (trained(drew(1, 2, of=2)),)}
    found = derived(flights([STEP], [STEP], [STEP], facts=facts, job=(CODE,)), LoopDepartures)
    assert found is not None
    assert found.first is not None
    assert (found.first.lengths, found.first.culprits) == ({0: 3, 1: 2, 2: 2}, (0,))


@pytest.mark.parametrize("fixed", [True, False])
def test_a_loop_of_a_fixed_number_of_turns_is_not_the_one_that_ended_early(*, fixed: bool) -> None:
    """The `break` of the loop around it is, as of an early stop between epochs."""
    stop = Jump(line=70, word="break", test="early.stop(loss)")
    epochs, steps = Loop(line=50, head="for epoch in range(9)", jumps=(stop,)), replace(LOOP, fixed=fixed)
    line, behind = Frame(file=TRAIN, line=61, function="main"), Frame(file=TRAIN, line=80, function="main")
    code = SourceCode(
        places=(
            CodePlace(file=TRAIN, line=61, function="main", loops=(epochs, steps)),
            CodePlace(file=TRAIN, line=80, function="main"),
        )
    )
    facts = {
        rank: (replace(one, forwards=tuple(replace(each, place=line, stack=(line,)) for each in one.forwards)),)
        for rank, one in enumerate([drew(1, 2, of=None), drew(1, 2, 3, of=None)])
    }
    call = CollectiveCall(op="barrier", group="0", seq=3, place=behind, returned=False)
    facts[0] = (replace(facts[0][0], calls=(call,)),)
    last = waits(Did("barrier", line=80, function="main"))
    found = derived(flights([STEP, STEP, last], [STEP, STEP, waits(STEP)], facts=facts, job=(code,)), LoopDepartures)
    assert found is not None
    assert found.first is not None
    assert (found.first.loop, found.first.jumps) == ((epochs, (stop,)) if fixed else (steps, ()))
