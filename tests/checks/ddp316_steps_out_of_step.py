"""A rank that skipped a batch, so that its gradients meet those of another step; ranks in step."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankExit, StepCount, StepMark
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from tests.checks import Sick, at, ranks
from tests.drawn_batches import drew
from tests.flight_records import STEP, TRAIN, Did, flights, waits
from tests.rank_ends import LOST_PEER, WRONG_SIZE, ended

LOOP = Loop(line=55, head="for images, labels in loader")
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)


def marks(*counts: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=count) for number, count in enumerate(counts)))


def forwards(*lines: int) -> CollectiveCalls:
    """A rank whose forwards were called from these lines."""
    places = (Frame(file=TRAIN, line=line, function="train") for line in lines)
    return CollectiveCalls(
        forwards=tuple(Forward(number=number, place=place) for number, place in enumerate(places, 1))
    )


def turns(*counts: int) -> CollectiveCalls:
    """A rank whose loop stood at these counts in its forwards."""
    place = Frame(file=TRAIN, line=61, function="train_step")
    made = (Forward(number=number, place=place, turn=count) for number, count in enumerate(counts, 1))
    return CollectiveCalls(forwards=tuple(made))


def own_sums(*seqs: int) -> tuple[CollectiveCall, ...]:
    """The user's own calls of these numbers, all from one line."""
    place = Frame(file=TRAIN, line=72, function="log")
    return tuple(CollectiveCall(op="all_reduce", group="0", seq=seq, place=place) for seq in seqs)


def accumulates(*reduces: bool) -> CollectiveCalls:
    """A rank whose forwards reduced gradients or not and were followed by a step where they did."""
    place = Frame(file=TRAIN, line=61, function="train_step")
    made = [sum(reduces[:number]) for number in range(len(reduces))]
    each = [
        Forward(number=number, place=place, steps=done, reduces=one)
        for number, (one, done) in enumerate(zip(reduces, made, strict=True), 1)
    ]
    return CollectiveCalls(forwards=tuple(each))


IF_BAD = Jump(line=58, word="continue", test="n == 20 and gpu == 1", by_rank=True)
SKIPS = Loop(
    line=55, head="for images, labels in loader", skips=(57, 58), jumps=(Jump(line=57, word="continue"), IF_BAD)
)
WITH_SKIPS = SourceCode(places=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(SKIPS,)),))
BUT_ONE = Condition(line=63, test="rank != 1 or step != 1", branch=0)
BACKWARD = Request(
    file=TRAIN, line=64, function="train_step", text="loss.backward()", wants="backward", conditions=(BUT_ONE,)
)
LEFT_OUT = SourceCode(places=(), requests=(BACKWARD, replace(BACKWARD, line=70, conditions=())))
PASSES = Loop(line=55, head="for x, y in loader", jumps=(Jump(line=63, word="continue", test="rank == 1 and i == 7"),))
PASSED_OVER = SourceCode(places=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(PASSES,)),))


def made(*seq: int) -> CollectiveCalls:
    """A rank that had made so many collectives when each iteration began, with a forward in each."""
    place = Frame(file=TRAIN, line=61, function="train_step")
    forwards = tuple(Forward(number=number, place=place, stack=(place,)) for number, _ in enumerate(seq, 1))
    return replace(marks(*seq), forwards=forwards)


IN_MAIN = Loop(line=99, head="for step in range(steps)")
TURN = Frame(file=TRAIN, line=100, function="main")
TOO_LARGE = Jump(line=63, word="return", test="loss.item() > limit")
GIVES_UP = (
    CodePlace(file=TRAIN, line=61, function="train_step", exits=(TOO_LARGE,)),
    CodePlace(file=TRAIN, line=100, function="main", loops=(IN_MAIN,)),
    CodePlace(
        file=TRAIN,
        line=102,
        function="main",
        loops=(IN_MAIN,),
        conditions=(Condition(line=101, test="step % 20 == 0", branch=0),),
    ),
)


def stepped(*seq: int) -> CollectiveCalls:
    """`made`, with forwards that a function makes which `main` calls in a loop."""
    calls = made(*seq)
    return replace(calls, forwards=tuple(replace(one, stack=(one.place, TURN)) for one in calls.forwards))


HANDLED = (
    CodePlace(
        file=TRAIN, line=61, function="train_step", loops=(LOOP,), exits=(Jump(line=66, word="except ValueError"),)
    ),
)


def drawn(calls: CollectiveCalls) -> CollectiveCalls:
    """The same, of a rank whose data loader counts."""
    steps = (replace(mark, in_pass=mark.iteration + 1, of=99, forwards=mark.iteration) for mark in calls.steps)
    return replace(calls, steps=tuple(steps))


METRIC = CollectiveCall(op="all_reduce", group="0", seq=6, returned=False)
STAYS, LEAVES = [*[STEP] * 5, waits(STEP)], [*[STEP] * 5, waits(Did("barrier", line=95))]
ENDS = (RankExit(exit_code=-6, tail=(WRONG_SIZE,)), LOST_PEER, LOST_PEER)

SICK: tuple[Sick, ...] = (
    Sick(
        evidence=ranks(marks(0, 2, 4, 6), marks(0, 2, 2, 4), marks(0, 2, 4, 6)),
        says="collective counts differ at the start of iteration 2: rank 1 issued 2 and ranks 0,2 issued 4",
        ranks=(1,),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 2, "2": 4}},
    ),
    Sick(  # a forward without its backward
        evidence=replace(ranks(marks(0, 2, 4, 6), marks(0, 2, 2, 4), marks(0, 2, 4, 6)), job=(LEFT_OUT,)),
        says="collective counts differ at the start of iteration 2: rank 1 issued 2 and ranks 0,2 issued 4",
        ranks=(1,),
        where=("/home/me/job/train.py:64 train_step",),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 2, "2": 4}},
    ),
    Sick(  # an error of the forward was caught, and the batch with it
        evidence=replace(
            ranks(made(0, 2, 4, 6), made(0, 2, 2, 4), made(0, 2, 4, 6)), job=(SourceCode(places=HANDLED),)
        ),
        says="collective counts differ at the start of iteration 2: rank 1 issued 2 and ranks 0,2 issued 4",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:66 train_step",),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 2, "2": 4}},
    ),
    Sick(  # the same of two ranks in one of their first batches: what is usual shows later
        evidence=replace(ranks(made(3, 4, 7, 8, 9, 10), made(3, 4, 7, 7, 8, 9)), job=(SourceCode(places=HANDLED),)),
        says="collective counts differ at the start of iteration 3: rank 1 issued 7 and rank 0 issued 8",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:66 train_step",),
        measured={"iteration": 3, "collectives": {"0": 8, "1": 7}},
    ),
    Sick(  # a sum for the loss and a backward are passed over together
        evidence=replace(ranks(made(0, 2, 4, 6), made(0, 2, 2, 4)), job=(PASSED_OVER,)),
        says="collective counts differ at the start of iteration 2: rank 1 issued 2 and rank 0 issued 4",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:63 train_step",),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 2}},
    ),
    Sick(  # it accumulates over fewer batches, and is a call behind in the end
        evidence=flights(
            [*[STEP] * 5, waits(Did("barrier", line=95))],
            [*[STEP] * 5, waits(STEP)],
            [*[STEP] * 5, waits(Did("barrier", line=95))],
            code=CODE,
            facts={0: (marks(0, 1, 1, 2),), 1: (marks(0, 1, 2, 3),), 2: (marks(0, 1, 1, 2),)},
        ),
        says="collective counts differ at the start of iteration 2: rank 1 issued 2 and ranks 0,2 issued 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:61 train_step", *at("/home/me/job/train.py:95 train_step", 0, 2)),
        measured={"iteration": 2, "collectives": {"0": 1, "1": 2, "2": 1}},
    ),
    Sick(  # it left out a call in its last iteration, which its peers have not finished; gloo ended one of these
        evidence=ended(
            (replace(marks(0, 2, 4), calls=(METRIC,)), ENDS[0]),
            (marks(0, 2, 4, 5), LOST_PEER),
            (replace(marks(0, 2, 4), calls=(METRIC,)), LOST_PEER),
        ),
        says="rank 1 began iteration 3 where ranks 0,2 called all_reduce #6",
        ranks=(1,),
        also=("DDP302",),
        measured={"iteration": 3, "collectives": {"0": 6, "1": 5, "2": 6}},
    ),
    Sick(  # it left out a sum of the metric in one step
        evidence=ranks(
            replace(marks(0, 2, 4), calls=own_sums(2, 4)),
            replace(marks(0, 2, 3), calls=own_sums(2)),
            replace(marks(0, 2, 4), calls=own_sums(2, 4)),
        ),
        says="rank 1 began iteration 2 without all_reduce #4 that ranks 0,2 called before it",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:72 log", "rank 2 /home/me/job/train.py:72 log"),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 3, "2": 4}},
    ),
    Sick(  # the same, and one of its peers did not get out of that sum
        evidence=ranks(
            replace(marks(0, 2), calls=own_sums(4)),
            marks(0, 2, 3),
            replace(marks(0, 2, 4), calls=own_sums(4)),
        ),
        says="rank 1 began iteration 2 without all_reduce #4 that ranks 0,2 called before it",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:72 log", "rank 2 /home/me/job/train.py:72 log"),
        measured={"iteration": 2, "collectives": {"0": 4, "1": 3, "2": 4}},
    ),
    Sick(  # two models in turns, one of them left out once; gloo ended the rank that could have shown its calls
        evidence=ended(
            *((forwards(*lines), one) for lines, one in zip(((25, 25), (25, 31), (25, 31)), ENDS, strict=True))
        ),
        says="forward 2 was not the same on every rank: rank 0 in train (train.py:25) and ranks 1-2 in train "
        "(train.py:31); gradients of different computations were reduced together",
        ranks=(0,),
        also=("DDP302",),
        where=("rank 0 /home/me/job/train.py:25 train", *at("/home/me/job/train.py:31 train", 1, 2)),
        measured={"forward": 2},
    ),
    Sick(  # of two ranks, one passed over a batch: it made fewer forwards with that batch than with all others
        evidence=replace(ranks(drew(1, 2, 3, 4, of=9), drew(1, 2, 3, 4, of=9, lacks=2)), job=(WITH_SKIPS,)),
        says="rank 1 passed over a batch before forward 2, and rank 0 did not; since then gradients are averaged with those "
        "of other steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:58 train_step",),
        measured={"batch": 2, "forward": 2},
    ),
    Sick(  # it passed over the very first batch: its first forward tells the loop
        evidence=replace(ranks(drew(1, 2, 3, 4, of=9), drew(1, 2, 3, 4, of=9, lacks=1)), job=(WITH_SKIPS,)),
        says="rank 1 passed over a batch before forward 1, and rank 0 did not; since then gradients are averaged with those "
        "of other steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:58 train_step",),
        measured={"batch": 1, "forward": 1},
    ),
    Sick(  # of two ranks without a data loader, one left out the forward of an accumulation that sums its gradients
        evidence=ranks(marks(*(n // 2 for n in range(20))), marks(*(n // 2 for n in range(17)), 8, 8, 9)),
        says="rank 1 made no collectives with forward 17, where rank 0 made 1 as usual; since then gradients are averaged with "
        "those of other steps",
        ranks=(1,),
        measured={"batch": None, "forward": 17},
    ),
    Sick(  # it returned before its backward, and came to its next sum when the others were in a backward: that call is no cause
        evidence=flights(
            [*[STEP] * 20, waits(STEP)],
            [*[STEP] * 20, waits(Did("all_reduce", line=102, function="main", sizes=((1,),)))],
            [*[STEP] * 20, waits(STEP)],
            code=GIVES_UP,
            facts={
                0: (stepped(*range(21)),),
                1: (stepped(*range(17), *range(16, 21)),),
                2: (stepped(*range(21)),),
            },
        ),
        says="rank 1 made no collectives with forward 16, where ranks 0,2 made 1 as usual; since then gradients are averaged "
        "with those of other steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:63 train_step",),
        measured={"batch": None, "forward": 16},
    ),
    Sick(  # the same with a data loader; of two ranks, it made fewer collectives with that batch than is usual
        evidence=flights(
            [*[STEP] * 20, waits(Did("all_reduce", line=102, function="main", sizes=((1,),)))],
            [*[STEP] * 20, waits(STEP)],
            code=GIVES_UP,
            facts={0: (drawn(stepped(*range(17), *range(16, 21))),), 1: (drawn(stepped(*range(21))),)},
        ),
        says="collective counts differ at the start of iteration 17: rank 0 issued 16 and rank 1 issued 17",
        ranks=(0,),
        where=(
            "rank 0 /home/me/job/train.py:63 train_step",
            "rank 0 /home/me/job/train.py:102 main",
            "rank 1 /home/me/job/train.py:61 train_step",
        ),
        measured={"iteration": 17, "collectives": {"0": 16, "1": 17}},
    ),
    Sick(  # a loop without a data loader, whose own variable counts
        evidence=flights(
            STAYS,
            LEAVES,
            STAYS,
            code=CODE,
            facts={0: (turns(0, 1, 2, 3),), 1: (turns(0, 2, 3),), 2: (turns(0, 1, 2, 3),)},
        ),
        says="rank 1 passed over a batch before forward 2, where the loop stood at 2 on rank 1 and 1 on ranks 0,2; "
        "since then gradients are averaged with those of other steps",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:95 train_step", *at("/home/me/job/train.py:61 train_step", 0, 2)),
        measured={"forward": 2, "turns": {"0": 1, "1": 2, "2": 1}},
    ),
    Sick(  # the same loop within another one; its `continue` is shown once
        evidence=flights(
            STAYS,
            LEAVES,
            STAYS,
            code=(replace(CODE[0], loops=(replace(SKIPS, line=54), SKIPS)), CODE[1]),
            facts={0: (turns(0, 1, 2, 3),), 1: (turns(0, 2, 3),), 2: (turns(0, 1, 2, 3),)},
        ),
        says="rank 1 passed over a batch before forward 2, where the loop stood at 2 on rank 1 and 1 on ranks 0,2; "
        "since then gradients are averaged with those of other steps",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:58 train_step",
            "rank 1 /home/me/job/train.py:95 train_step",
            *at("/home/me/job/train.py:61 train_step", 0, 2),
        ),
        measured={"forward": 2, "turns": {"0": 1, "1": 2, "2": 1}},
    ),
)
WITH_JOIN = FlightRecord(
    version="2.10",
    groups=(),
    calls=(),
    frames=(
        Frame(file="/venv/lib/python3.11/site-packages/torch/distributed/algorithms/join.py", line=9, function="f"),
    ),
)

SICK = (
    *SICK,
    Sick(  # it accumulates over three batches where its peers do over two
        evidence=flights(
            [STEP, STEP, waits(Did("all_gather", line=95))],
            [STEP, STEP, waits(Did("all_gather", line=95))],
            [STEP, STEP, waits(STEP)],
            facts={
                0: (accumulates(False, True, False),),
                1: (accumulates(False, True, False),),
                2: (accumulates(False, False, True),),
            },
        ),
        says="rank 2 made forward 2 under `no_sync`, and ranks 0-1 reduced their gradients",
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1),
        measured={"forward": 2, "reduced": {"0": True, "1": True, "2": False}},
        also=("DDP301",),
    ),
    Sick(  # of two ranks, the one at fault stepped without a reduction
        evidence=flights(
            [STEP, waits(STEP)],
            [STEP, waits(Did("all_gather", line=95))],
            facts={
                0: (accumulates(False, True), StepCount(steps=0)),
                1: (accumulates(False, False), StepCount(steps=1)),
            },
        ),
        says="rank 1 made forward 2 under `no_sync`, and rank 0 reduced its gradients; rank 1 then stepped with its own "
        "gradients",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:61 train_step", "rank 0 /home/me/job/train.py:61 train_step"),
        measured={"forward": 2, "reduced": {"0": True, "1": False}},
        also=("DDP301",),
    ),
)
HEALTHY = (
    # two models of different process groups: their ranks may accumulate differently
    ranks(accumulates(False, True, False, True), accumulates(True, True, True, True)),
    ranks((marks(0, 2, 4), WITH_JOIN), (marks(0, 2, 6), WITH_JOIN)),  # a rank without data answers the others' calls
    ranks(forwards(25, 31), forwards(25, 25)),
    ranks(turns(0, 1, 2, 3), turns(0, 2, 3, 4)),  # each looks for its next good batch alone, and all make as many steps
    ranks(marks(0, 2, 4), marks(0, 2, 4, 6)),
    ranks(replace(marks(0, 2, 4), calls=(METRIC,)), marks(0, 2, 4, 5, 7)),  # fewer batches, and a sum behind the loop
)
