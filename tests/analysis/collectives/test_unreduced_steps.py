"""A rank whose backward reduces nothing makes all of its steps alone, and its peers wait in their first reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankExit, StepCount, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, RankValue, SourceCode
from tests.flight_records import STEP, TRAIN, Did, flights, waits
from tests.rank_ends import LOST_PEER, ended

AT = Frame(file=TRAIN, line=58, function="train_step")
FORWARD = Forward(number=9, place=AT, steps=8)
IN_ITS_BACKWARD = Forward(number=2, place=AT, steps=1, reduces=True)


def own(op: str) -> tuple[CollectiveCall, ...]:
    """The second call of a rank, as its own code made it."""
    return (CollectiveCall(op=op, group="0", seq=2, place=AT, returned=False),)


def alone(
    *,
    steps: int,
    marks: int = 9,
    forwards: tuple[Forward, ...] = (FORWARD,),
    theirs: tuple[Forward, ...] = (IN_ITS_BACKWARD,),
    calls: tuple[CollectiveCall, ...] = (),
    waits_in: Did = STEP,
) -> Evidence:
    """Rank 0 made `steps` optimizer steps and ended, and its peers have made one, and wait in their second reduction.

    `theirs` are the forwards of the peers, and `calls` what their own code called.
    """
    begun_by_peers = CollectiveCalls(steps=(StepMark(iteration=2, seq=1),), forwards=theirs, calls=calls)
    waiting = (LOST_PEER, StepCount(forwards=2, steps=1), begun_by_peers)
    begun = tuple(StepMark(iteration=number, seq=1) for number in range(2, marks + 1))
    ended = RankExit(exit_code=0), StepCount(forwards=9, steps=steps), CollectiveCalls(steps=begun, forwards=forwards)
    return flights([STEP], *[[STEP, waits(waits_in)]] * 2, facts={0: ended, 1: waiting, 2: waiting})


def test_the_rank_whose_steps_reduce_nothing_is_named_with_its_forward() -> None:
    first, *others = diagnose(alone(steps=9)).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert first.message == (
        "rank 0 made 9 optimizer steps and ended, 8 of them without a reduction of gradients; ranks 1-2 wait in all_reduce #2 "
        "after 1"
    )
    assert [(where.line, where.rank) for where in first.where] == [(58, 0), (61, 1), (61, 2)]
    assert first.details == ()
    assert "DDP306" not in {one.code for one in others}


def test_a_rank_that_calls_no_ddp_model_is_said_to_train_another_one() -> None:
    first, *_ = diagnose(alone(steps=9, marks=1, forwards=())).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert first.details == (
        (
            "rank 0 called no forward of a DDP model for these steps: it trained another one, such as the module inside "
            "(`model.module`)"
        ),
    )


def test_a_rank_with_one_step_more_has_left_its_loop() -> None:
    first, *_ = diagnose(alone(steps=2)).findings
    assert (first.code, first.ranks) == ("DDP306", (0,))


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(alone(steps=9, marks=1, forwards=(), theirs=(), calls=own("all_reduce")), id="no DDP model"),
        pytest.param(alone(steps=9, marks=1, forwards=(), calls=own("all_reduce")), id="averaged by hand"),
        pytest.param(alone(steps=9, marks=1, forwards=(), waits_in=Did("barrier")), id="in a barrier"),
        pytest.param(alone(steps=9, theirs=(Forward(number=2, place=AT, steps=1, reduces=False),)), id="under no_sync"),
        pytest.param(
            alone(steps=9, marks=1, forwards=(Forward(number=1, place=AT, steps=0),)), id="a probe, no batches"
        ),
        pytest.param(alone(steps=9, forwards=(Forward(number=1, place=AT, steps=0),)), id="a probe with batches"),
    ],
)
def test_steps_are_without_a_reduction_only_where_the_peers_wait_in_one(evidence: Evidence) -> None:
    assert [finding.code for finding in diagnose(evidence).findings if finding.ranks == (0,)] == ["DDP306"]


def test_the_steps_of_several_ranks_are_given_as_a_span() -> None:
    ended = tuple(
        (RankExit(exit_code=0), StepCount(forwards=steps, steps=steps), CollectiveCalls()) for steps in (7, 9)
    )
    waiting = (LOST_PEER, StepCount(forwards=2, steps=1), CollectiveCalls(forwards=(IN_ITS_BACKWARD,)))
    facts = dict(enumerate((*ended, *[waiting] * 3)))
    first, *_ = diagnose(flights(*[[STEP]] * 2, *[[STEP, waits(STEP)]] * 3, facts=facts)).findings

    assert (first.code, first.ranks) == ("DDP316", (0, 1))
    assert first.message == (
        "ranks 0-1 made 7 to 9 optimizer steps and ended, 6 to 8 of them without a reduction of gradients; ranks 2-4 wait in "
        "all_reduce #2 after 1"
    )


def accumulating(*reduced: bool, steps: int) -> tuple[StepCount, CollectiveCalls]:
    """What a rank that never waited for its peers recorded: which of its forwards reduce."""
    forwards = tuple(
        Forward(number=number, place=AT, steps=number // 2, reduces=one) for number, one in enumerate(reduced)
    )
    marks = tuple(StepMark(iteration=number, seq=0) for number in range(len(reduced)))
    return StepCount(forwards=len(reduced), steps=steps), CollectiveCalls(steps=marks, forwards=forwards)


@pytest.mark.parametrize(("never", "code"), [(True, "DDP316"), (False, "DDP306")])
def test_a_rank_that_never_leaves_no_sync_and_ends_is_told_without_a_recorder(never: bool, code: str) -> None:
    waits_for_it = (LOST_PEER, *accumulating(False, True, steps=0))
    made = accumulating(False, not never, False, not never, steps=2)
    first, *others = diagnose(ended(waits_for_it, (RankExit(exit_code=0), *made), waits_for_it)).findings

    assert (first.code, first.ranks) == (code, (1,))
    assert ("DDP306" in {one.code for one in others}) is False


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_a_rank_that_calls_for_its_exit_in_a_loop_is_not_told_about_numbers_of_batches(in_a_loop: bool) -> None:
    loops = (Loop(line=50, head="for batch in loader"),) if in_a_loop else ()
    code = SourceCode(places=(CodePlace(file=TRAIN, line=58, function="train_step", loops=loops),))
    gone = (RankExit(exit_code=0, left_by=(AT,)), StepCount(forwards=4, steps=4))
    lost = (LOST_PEER, StepCount(forwards=4, steps=4))
    first, *_ = diagnose(ended(lost, gone, lost, job=(code,))).findings

    assert (first.code, first.ranks) == ("DDP306", (1,))
    assert first.remedy.startswith("end all ranks together") is in_a_loop


def met(*, steps: int = 4, forwards: tuple[Forward, ...] = (), own_call: bool = True, peers: int = 2) -> Evidence:
    """Rank 0 made `steps` optimizer steps and reduces its loss for the log; its peers wait in DDP's reduction after one step."""
    logged = Did("all_reduce", line=95, sizes=((),))
    calls = own("all_reduce") if own_call else ()
    count = StepCount(forwards=len(forwards), steps=steps)
    waiting = (StepCount(forwards=2, steps=1), CollectiveCalls(forwards=(IN_ITS_BACKWARD,)))
    code = (
        CodePlace(
            file=TRAIN,
            line=61,
            function="train_step",
            rank_values=(RankValue(line=58, text="model if rank != 0 else model.module"),),
        ),
        CodePlace(
            file=TRAIN, line=95, function="train_step", conditions=(Condition(line=94, test="step % 4 == 3", branch=0),)
        ),
    )
    facts = {0: (count, CollectiveCalls(forwards=forwards, calls=calls)), **dict.fromkeys(range(1, peers + 1), waiting)}
    return flights([STEP, waits(logged)], *[[STEP, waits(STEP)]] * peers, code=code, facts=facts)


@pytest.mark.parametrize("peers", [1, 2])
def test_a_rank_that_trains_the_module_inside_until_its_log_meets_a_reduction_is_told_to_call_the_ddp_model(
    peers: int,
) -> None:
    (first,) = diagnose(met(peers=peers)).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert first.message.startswith(
        "rank 0 made 4 optimizer steps before all_reduce #2, 3 of them without a reduction of gradients; "
    )
    assert (first.where[0].line, first.where[0].note) == (
        58,
        "`model if rank != 0 else model.module` depends on the rank",
    )
    assert "model.module" in first.remedy


def test_a_rank_that_trains_the_module_inside_from_its_second_epoch_on_is_told_so_too() -> None:
    """`if rank == 0 and epoch == 1: model = model.module`."""
    before = Forward(number=1, place=AT, steps=0, reduces=True)

    (first,) = diagnose(met(steps=4, forwards=(before,))).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert "model.module" in first.details[0]


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(met(steps=2), id="one step more"),
        pytest.param(met(steps=3, forwards=(replace(IN_ITS_BACKWARD, steps=1),)), id="called it two steps ago"),
        pytest.param(met(forwards=(FORWARD,)), id="calls the DDP model"),
        pytest.param(met(own_call=False), id="its call is DDP's"),
    ],
)
def test_a_rank_that_calls_the_ddp_model_or_is_in_step_is_said_to_make_another_call(evidence: Evidence) -> None:
    assert "no forward of a DDP model" not in str([finding.details for finding in diagnose(evidence).findings])
