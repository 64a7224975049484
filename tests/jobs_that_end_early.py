"""Jobs whose ranks leave a loop or their program while others still need them, and their source."""

from collections.abc import Sequence
from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankError, RankExit, StepCount
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from tests.checks import Sick, ranks
from tests.drawn_batches import drew
from tests.flight_records import STEP, TRAIN, Did, flights, record, waits
from tests.hangs import C10D, SCRIPT, stack
from tests.rank_ends import CLOSED, LOST_PEER, WRONG_SIZE, ended

LOOP = Loop(line=55, head="for images, labels in loader")
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)
NEXT = waits(STEP)
ENDED = RankExit(exit_code=-15, ended_by_launcher=True)
END = waits(Did("barrier", line=95))
EVALUATED = Did("all_gather", line=95)
SEEN = SourceCode(places=tuple(replace(place, file=SCRIPT) for place in CODE))
IN_BARRIER = stack((C10D, 5000, "barrier"), user=(95, "train_step"))

LEAVES = Loop(line=55, head="for images, labels in loader", jumps=(Jump(line=63, word="break", test="rank == 1"),))
AT = Frame(file=TRAIN, line=61, function="train_step")
LEAVES_BY_RANK = Loop(
    line=55, head="while True", jumps=(Jump(line=63, word="break", test="rank == 0"), Jump(line=70, word="break"))
)
WITH_LEAVES = SourceCode(places=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(LEAVES,)),))

CALLED_BEHIND = SourceCode(
    places=(*WITH_LEAVES.places, CodePlace(file=TRAIN, line=95, function="train_step", conditions=()))
)


def sums_behind(made: CollectiveCalls, seq: int) -> CollectiveCalls:
    """The same rank, whose last call of its own is number `seq`, behind the loop."""
    place = Frame(file=TRAIN, line=95, function="train_step")
    return replace(made, calls=(CollectiveCall(op="all_reduce", group="0", seq=seq, place=place, returned=False),))


def counts_nothing(made: CollectiveCalls) -> CollectiveCalls:
    """The same rank without a data loader."""
    return replace(made, steps=tuple(replace(mark, in_pass=None, of=None) for mark in made.steps))


SHORTER, LONGER = drew(1, 2, of=2), drew(1, 2, 3, of=3)
ABORTED = RankExit(exit_code=-6, tail=(WRONG_SIZE,))


def mixed_up(first: CollectiveCalls, *others: CollectiveCalls, code: SourceCode = CALLED_BEHIND) -> Evidence:
    """A job that gloo ended because calls of different sizes met: no recorder is left."""
    return ended((first, ABORTED), *((one, LOST_PEER) for one in others), job=(code,))


EPOCHS = Loop(line=98, head="for epoch in range(epochs)")


def apart(rank0: int, rank1: int, *, further: Sequence[int] = ()) -> Evidence:
    """Rank 1 stands behind the loop over two batches, in a test that is not of the rank; rank 0 in it, in a call of a framework.

    A pass has these numbers of batches on them. Rank 0 has drawn the batches `further`, too.
    """
    tensor = Condition(line=96, test="isinstance(x, Tensor)", branch=0)
    return flights(
        [STEP, waits(Did("broadcast", line=62))],
        [STEP, waits(Did("barrier", line=97, function="evaluate", main=101))],
        code=(
            CodePlace(file=TRAIN, line=43, function="run_batch"),
            *(CodePlace(file=TRAIN, line=line, function="train_step", loops=(LOOP,)) for line in (61, 62)),
            CodePlace(file=TRAIN, line=97, function="evaluate", conditions=(tensor,)),
            *(CodePlace(file=TRAIN, line=line, function="main", loops=(EPOCHS,)) for line in (100, 101)),
        ),
        facts={0: (drew(1, 2, *further, of=rank0),), 1: (drew(1, 2, of=rank1),)},
    )


LOOPS = "/opt/venv/lib/python3.11/site-packages/mmengine/runner/loops.py"
LAUNCHES = Frame(file=TRAIN, line=99, function="main")


def by_a_trainer(made: CollectiveCalls, *calls: Did) -> tuple[object, ...]:
    """A rank whose loops and calls are those of a framework, which line 99 of train.py has called."""
    plain = record(calls, world=2, backend="gloo")
    named = {"main": "run", "train_step": "train_step", "evaluate": "evaluate"}
    frames = [
        replace(one, file=LOOPS, function=named[one.function]) if one.file == TRAIN else one for one in plain.frames
    ]
    stacks = tuple((*stack, len(frames)) for stack in plain.stacks)
    within = (
        *(replace(one, file=LOOPS) for one in made.forwards[0].stack),
        Frame(file=LOOPS, line=98, function="run"),
        LAUNCHES,
    )
    forwards = tuple(replace(one, place=LAUNCHES, stack=within) for one in made.forwards)
    return replace(plain, frames=(*frames, LAUNCHES), stacks=stacks), replace(made, forwards=forwards)


def validates_early(of: int, *, raised: str, line: int = 20) -> Evidence:
    """Rank 1 has had `of` batches and is in the validation of a framework, whose broadcast met that of rank 0's next forward.

    What it received it could not read at this line of the validation.
    """
    validates = Condition(line=101, test="self.val_loop is not None", branch=0)
    behind = CollectiveCall(op="broadcast", group="0", seq=3, place=LAUNCHES, returned=True)
    evaluate, run = (Frame(file=LOOPS, line=at, function=name) for at, name in ((line, "evaluate"), (105, "run")))
    error = RankError(type=raised, message="invalid start byte", stack=(evaluate, run, LAUNCHES))
    at_work, early = drew(1, 2, 3, of=3), replace(drew(1, 2, of=of), calls=(behind,))
    buffers, results = (
        Did("broadcast", main=98, sizes=((16,),)),
        Did("broadcast", line=20, function="evaluate", main=105, sizes=((512,),)),
    )
    step = replace(STEP, main=98)
    return ended(
        (*by_a_trainer(at_work, step, step, buffers), LOST_PEER),
        (*by_a_trainer(early, step, step, results), RankExit(exit_code=1, error=error)),
        job=(
            SourceCode(
                places=(
                    CodePlace(file=TRAIN, line=99, function="main"),
                    CodePlace(file=LOOPS, line=98, function="run", loops=(EPOCHS,)),
                    CodePlace(file=LOOPS, line=105, function="run", loops=(EPOCHS,), conditions=(validates,)),
                    CodePlace(file=LOOPS, line=61, function="train_step", loops=(LOOP,)),
                    CodePlace(file=LOOPS, line=20, function="evaluate"),
                )
            ),
        ),
    )


def without_ddp(*, steps: int) -> Evidence:
    """Ranks 0 and 2 called a DDP model, rank 1 made so many steps without one and ended."""
    trained = CollectiveCalls(forwards=(Forward(number=1, place=AT, stack=(AT,)),))
    return ranks(
        (trained, LOST_PEER, StepCount(steps=1)),
        (CollectiveCalls(), RankExit(exit_code=0), StepCount(steps=steps)),
        (trained, LOST_PEER, StepCount(steps=1)),
    )


IN_OTHER_BARRIER = stack((C10D, 5000, "barrier"), user=(97, "train_step"))
IN_INIT = stack((C10D, 1899, "init_process_group"), user=(8, "setup"))


def under(line: int, test: str = "rank == 0", *, branch: int = 0) -> SourceCode:
    """A line of the script below a test of the rank, whose condition stands at line 7."""
    condition = Condition(line=7, test=test, branch=branch)
    return SourceCode(places=(CodePlace(file=SCRIPT, line=line, function="train_step", conditions=(condition,)),))


def leaves(line: int, test: str, text: str = "sys.exit(0)") -> Request:
    """A call that ends the program under a test."""
    condition = Condition(line=line - 1, test=test, branch=0)
    return Request(file="/job/train.py", line=line, function="stop", text=text, wants="exit", conditions=(condition,))


def stopped_early(*jumps: Jump, passed: int = 1) -> Evidence:
    """Rank 1 has ended, after as many steps as its peers, which wait behind a statement out of the loop over epochs."""
    epochs = replace(EPOCHS, jumps=jumps)
    step, save = replace(STEP, main=98), Did("barrier", line=95, main=104)
    stacks = (AT, Frame(file=TRAIN, line=98, function="main"))

    def facts(number: int) -> tuple[object, ...]:
        trained = CollectiveCalls(forwards=(Forward(number=number, place=AT, stack=stacks),))
        return StepCount(steps=1), trained

    return flights(
        [step, waits(save)],
        [step],
        [step, waits(save)],
        facts={0: facts(passed), 1: (RankExit(exit_code=0), *facts(1)), 2: facts(passed)},
        code=(
            CodePlace(file=TRAIN, line=61, function="train_step"),
            CodePlace(file=TRAIN, line=95, function="train_step"),
            CodePlace(file=TRAIN, line=98, function="main", loops=(epochs,)),
            CodePlace(file=TRAIN, line=104, function="main", loops=(epochs,)),
        ),
    )


STOPS = Jump(line=102, word="break", test="should_stop(loss)")
BEHIND = ("rank 0 /home/me/job/train.py:95 train_step", "rank 2 /home/me/job/train.py:95 train_step")


def stopped(*where: str, jumps: tuple[Jump, ...], passed: int = 1) -> Sick:
    """What is said of it, with these lines."""
    return Sick(
        evidence=stopped_early(*jumps, passed=passed),
        says="rank 1 ended with exit code 0 after 1 step while ranks 0,2 wait in barrier #2, which have made 1 step",
        ranks=(1,),
        where=(*where, *BEHIND),
        measured={
            "seq": 2,
            "group": "default",
            "calls": {"1": 1, "0": 2, "2": 2},
            "steps": {"0": 1, "1": 1, "2": 1},
        },
    )


def lost_in_save() -> Evidence:
    """The same, where no recorder tells what the others wait in: only the error with which they lost rank 1."""
    known = stopped_early(STOPS)
    error = RankError(
        type="RuntimeError",
        message=CLOSED,
        stack=(Frame(file=TRAIN, line=95, function="train_step"), Frame(file=TRAIN, line=104, function="main")),
    )
    kept = [
        (
            *(fact for fact in found.facts if isinstance(fact, StepCount | CollectiveCalls)),
            RankExit(exit_code=0) if found.rank == 1 else RankExit(exit_code=1, error=error, order=found.rank),
        )
        for found in known.ranks
    ]
    return replace(ranks(*kept), job=known.job)


EXITS = SourceCode(
    requests=(
        leaves(20, "step > 8 and rank == 1"),
        leaves(30, "rank == 1", "sys.exit(2)"),
        leaves(40, "rank == 0"),
        leaves(50, "not args.data"),
    )
)
EITHER = SourceCode(requests=(leaves(20, "rank == '1'"), leaves(30, "not shards[rank]")))
