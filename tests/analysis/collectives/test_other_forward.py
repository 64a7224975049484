"""The first forward that is another one on some ranks is shown with the test that sent them there."""

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankExit, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, RankValue, SourceCode
from tests.flight_records import TRAIN
from tests.rank_ends import LOST_PEER, WRONG_SIZE, ended

LOOP = Loop(line=60, head="for it in range(1, 151)")
EVERY_SECOND = Condition(line=63, test="it % (2 + (RANK == 1)) == 0", branch=0)
CODE = SourceCode(
    places=(
        CodePlace(file=TRAIN, line=62, function="<module>", loops=(LOOP,)),
        CodePlace(file=TRAIN, line=64, function="<module>", loops=(LOOP,), conditions=(EVERY_SECOND,)),
    )
)
D_STEP, G_STEP = (62, 23, "d_step"), (64, 34, "g_step")


def trains(*steps: tuple[int, int, str]) -> CollectiveCalls:
    """A rank that called a forward in each of these functions, from these lines of its loop."""
    return CollectiveCalls(
        forwards=tuple(
            Forward(
                number=number,
                place=Frame(file=TRAIN, line=line, function=function),
                stack=(
                    Frame(file=TRAIN, line=line, function=function),
                    Frame(file=TRAIN, line=called_from, function="<module>"),
                ),
            )
            for number, (called_from, line, function) in enumerate(steps, 1)
        )
    )


def test_a_gan_whose_rank_1_trains_its_generator_in_other_steps_is_shown_with_the_test() -> None:
    ends = (LOST_PEER, RankExit(exit_code=-6, tail=(WRONG_SIZE,)), LOST_PEER)
    made = ((D_STEP, G_STEP), (D_STEP, D_STEP), (D_STEP, G_STEP))
    job = ended(*((trains(*steps), end) for steps, end in zip(made, ends, strict=True)), job=(CODE,))

    first, *_ = diagnose(job).findings

    assert (first.code, first.ranks) == ("DDP316", (1,))
    assert [where.note for where in first.where] == [
        "forward 2, the others are inside `if it % (2 + (RANK == 1)) == 0` (train.py:63)",
        "forward 2",
        "forward 2",
    ]


VALUE = RankValue(line=61, text="3 - (rank == 1)", targets=(), compares=True, in_head=True)


@pytest.mark.parametrize(
    ("head", "values", "shown"),
    [
        ("for _ in range(3 - (rank == 1))", (VALUE,), "`3 - (rank == 1)` depends on the rank"),
        ("for _ in range(turns)", (), "the loop `for _ in range(turns)`"),
    ],
)
def test_a_forward_in_a_loop_that_a_rank_has_left_is_shown_with_the_head_of_the_loop(
    head: str, values: tuple[RankValue, ...], shown: str
) -> None:
    inner = Loop(line=61, head=head)
    code = SourceCode(
        places=(
            CodePlace(file=TRAIN, line=62, function="<module>", loops=(LOOP, inner), rank_values=values),
            CodePlace(file=TRAIN, line=64, function="<module>", loops=(LOOP,)),
        )
    )
    ends = (LOST_PEER, RankExit(exit_code=-6, tail=(WRONG_SIZE,)), LOST_PEER)
    made = ((D_STEP, D_STEP), (D_STEP, G_STEP), (D_STEP, D_STEP))
    job = ended(*((trains(*steps), end) for steps, end in zip(made, ends, strict=True)), job=(code,))

    first, *_ = diagnose(job).findings

    assert (first.code, first.ranks) == ("DDP316", (1,))
    assert (first.where[0].line, first.where[0].note) == (61, shown)


def stage(line: int, *issued: tuple[str, int, bool]) -> CollectiveCalls:
    """A rank of a pipeline that called two forwards at this line, and these sends and receives with rank 2 or 0."""
    place = Frame(file=TRAIN, line=line, function="stage")
    calls = (
        CollectiveCall(op=op, group="0", seq=seq, peer=peer, place=place, returned=returned)
        for seq, (op, peer, returned) in enumerate(issued, 1)
    )
    forwards = (Forward(number=number, place=place, stack=(place,)) for number in (1, 2))
    return CollectiveCalls(calls=tuple(calls), forwards=tuple(forwards), steps=(StepMark(iteration=1, seq=0),))


def test_the_stages_of_a_pipeline_call_forwards_and_sends_of_their_own() -> None:
    went_on = StepMark(iteration=2, seq=0)
    first = stage(81, ("isend", 2, False), ("irecv", 2, True))
    ahead = replace(stage(81), steps=(StepMark(iteration=1, seq=0), went_on))
    others = (ahead, stage(93, ("irecv", 0, True), ("isend", 0, True)), stage(93))
    ends = (RankExit(exit_code=-6, tail=(WRONG_SIZE,)), LOST_PEER, LOST_PEER, LOST_PEER)

    found, *more = diagnose(ended(*zip((first, *others), ends, strict=True))).findings

    assert (found.code, found.ranks, more) == ("DDP302", (0, 2), [])
    assert found.message == (
        "rank 0 received 180 bytes from rank 2 where 68 were expected: their shapes or dtypes differ, or they are halves of "
        "different transfers; no majority: either side may be at fault"
    )
    assert [(where.rank, where.line, where.note) for where in found.where] == [(2, 93, "isend to rank 0")]
