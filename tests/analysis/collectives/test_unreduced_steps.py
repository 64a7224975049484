"""A rank whose backward reduces nothing makes all of its steps alone, and its peers wait in their first reduction."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, RankExit, StepCount, StepMark
from tests.flight_records import STEP, TRAIN, flights, waits
from tests.rank_ends import LOST_PEER

FORWARD = Forward(number=9, place=Frame(file=TRAIN, line=58, function="train_step"))


def alone(*, steps: int, marks: int = 9, forwards: tuple[Forward, ...] = (FORWARD,)) -> Evidence:
    """Rank 0 made `steps` optimizer steps and ended, and its peers have made one, and wait in their second reduction."""
    waiting = (LOST_PEER, StepCount(forwards=2, steps=1), CollectiveCalls(steps=(StepMark(iteration=2, seq=1),)))
    begun = tuple(StepMark(iteration=number, seq=1) for number in range(2, marks + 1))
    ended = RankExit(exit_code=0), StepCount(forwards=9, steps=steps), CollectiveCalls(steps=begun, forwards=forwards)
    return flights([STEP], *[[STEP, waits(STEP)]] * 2, facts={0: ended, 1: waiting, 2: waiting})


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
        "rank 0 called no forward of a DDP model: it trained another one, such as the module inside (`model.module`)",
    )


def test_a_rank_with_one_step_more_has_left_its_loop() -> None:
    first, *_ = diagnose(alone(steps=2)).findings
    assert (first.code, first.ranks) == ("DDP306", (0,))
