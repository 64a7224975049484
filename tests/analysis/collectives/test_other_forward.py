"""The first forward that is another one on some ranks is shown with the test that sent them there."""

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode
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
