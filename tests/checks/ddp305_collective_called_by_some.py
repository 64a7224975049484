"""A call under `if rank == 0`, a call that slipped in and was paired wrongly; a healthy pair of branches."""

from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, JobSize, RankExit, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from tests.checks import Sick, at, ranks
from tests.flight_records import STEP, TRAIN, Did, flights, record, waits
from tests.hangs import C10D, IN_BACKWARD, SCRIPT, TORCH, hang, rank, stack
from tests.rank_ends import LOST_PEER, WRONG_SIZE

LOOP = Loop(line=55, head="for images, labels in loader")
ONLY_RANK_0 = Condition(line=85, test="rank == 0", branch=0)
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=88, function="train_step", loops=(LOOP,), conditions=(ONLY_RANK_0,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)
AT_THE_END = (
    *CODE,
    CodePlace(file=TRAIN, line=97, function="train_step", conditions=(Condition(line=96, test="rank == 0", branch=0),)),
)
ALL_BUT_1 = (
    *CODE,
    CodePlace(file=TRAIN, line=97, function="train_step", conditions=(Condition(line=96, test="rank != 1", branch=0),)),
)
LATER_2 = Condition(line=96, test="rank == 2 and epoch > 0", branch=1)
BUT_LATER_2 = (*CODE, CodePlace(file=TRAIN, line=97, function="train_step", conditions=(LATER_2,)))
SKIPS = Loop(
    line=55,
    head="for images, labels in loader",
    jumps=(Jump(line=60, word="continue", test="not torch.isfinite(loss)"),),
)
IN_A_TURN = tuple(CodePlace(file=TRAIN, line=line, function="train_step") for line in (58, 61))
FORWARD = Did("broadcast", line=58)
EXTRA = waits(Did("broadcast", line=88))
EVALUATED = Did("all_gather", line=95)
END = waits(Did("barrier", line=95))
SLIPPED = Did("all_reduce", line=88)
LAST = waits(Did("all_reduce", line=61))
DDP = f"{TORCH}/nn/parallel/distributed.py"
IN_FORWARD = stack((DDP, 1530, "_pre_forward"), (DDP, 1632, "forward"), user=(60, "train_step"))
IN_MONITORED_BARRIER = stack((C10D, 5400, "monitored_barrier"), user=(88, "train_step"))
IN_BROADCAST = stack((C10D, 2900, "broadcast"), user=(88, "train_step"))
STEPS = (*CODE, CodePlace(file=SCRIPT, line=60, function="train_step", loops=(LOOP,)))
SEEN = SourceCode(places=tuple(replace(place, file=SCRIPT) for place in STEPS))
ALL_BUT_0 = SourceCode(
    places=(CodePlace(file=SCRIPT, line=88, function="train_step", conditions=(replace(ONLY_RANK_0, branch=1),)),)
)


def in_step(*seq: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=made) for number, made in enumerate(seq)))


UNDER_A_TEST = (
    CodePlace(file=TRAIN, line=20, function="main"),
    CodePlace(file=TRAIN, line=22, function="main", conditions=(Condition(line=21, test="rank == 0", branch=0),)),
)


def called_from(*lines: int) -> tuple[Forward, ...]:
    """Forwards that were called from these lines of `main`."""
    places = [Frame(file=TRAIN, line=line, function="main") for line in lines]
    return tuple(Forward(number=number, place=place, stack=(place,)) for number, place in enumerate(places, 1))


EPOCHS, BATCHES, KEYS = Loop(line=90, head="for epoch in range(3)"), LOOP, Loop(line=9, head="for key in sorted(seen)")
KEY, BATCH = (
    Did("all_reduce", line=10, function="reduce", main=107),
    Did("all_reduce", line=61, function="main", sizes=((500,),)),
)
LONGER = Loop(line=9, head="for key in sorted(seen)", jumps=(Jump(line=11, word="break", test="total > 5"),))
REDUCES = tuple(
    CodePlace(file=TRAIN, line=line, function=function, loops=loops)
    for line, function, loops in ((61, "main", (EPOCHS, BATCHES)), (107, "main", (EPOCHS,)), (10, "reduce", (KEYS,)))
)
BARRIER = Did("barrier", line=120, function="main")
IN_TWO_LOOPS = (
    CodePlace(file=TRAIN, line=107, function="main", loops=(EPOCHS, BATCHES)),
    CodePlace(file=TRAIN, line=120, function="main", loops=(EPOCHS,)),
    REDUCES[2],
)
MAY_BREAK = (*REDUCES[:2], replace(REDUCES[2], loops=(LONGER,)))
FIXED = Loop(line=60, head="for _ in range(steps)", fixed=True)
TELL = Did("broadcast", line=13, function="agree", main=107, sizes=((1,),))
GOES_OVER_NUMBERS = (
    CodePlace(file=TRAIN, line=61, function="main", loops=(EPOCHS, FIXED)),
    REDUCES[1],
    CodePlace(
        file=TRAIN,
        line=13,
        function="agree",
        exits=(Jump(line=11, word="return", test="rank == 0 and newest == known", by_rank=True, tested=8),),
    ),
)
SAVES = (
    Frame(file=C10D, line=3000, function="all_gather"),
    Frame(file=TRAIN, line=14, function="full_state"),
    Frame(file=TRAIN, line=20, function="maybe_save"),
    Frame(file=TRAIN, line=100, function="main"),
)
ABORTED_THERE = RankExit(exit_code=-6, tail=(WRONG_SIZE,), native_stack=SAVES)
SAVES_ON = CodePlace(
    file=TRAIN,
    line=20,
    function="maybe_save",
    conditions=(Condition(line=19, test="rank == 0", branch=0, by_rank=True),),
)
ABORTED = flights(
    None,
    [STEP, STEP],
    [STEP, STEP],
    backend="gloo",
    code=(SAVES_ON,),
    facts={0: (ABORTED_THERE,), 1: (LOST_PEER,), 2: (LOST_PEER,)},
)
OF_TURNS = (
    Sick(  # gloo ends the rank at once, with its recorder: its stack shows a call under a test of the rank
        evidence=ABORTED,
        says="rank 0 made a collective that ranks 1-2 never call; it met another one of ranks 1-2, and gloo ended the job",
        ranks=(0,),
        where=(
            "rank 0 /home/me/job/train.py:14 full_state",
            "rank 1 /home/me/job/train.py:61 train_step",
            "rank 2 /home/me/job/train.py:61 train_step",
        ),
        also=("DDP302",),
    ),
    Sick(  # it returned before the call, and goes on; the loop that its peers are past has as many turns everywhere
        evidence=flights([BATCH, BATCH, waits(BATCH)], *[[BATCH, BATCH, waits(TELL)]] * 2, code=GOES_OVER_NUMBERS),
        says="rank 0 never called broadcast #3 that ranks 1-2 call: the next that it called was all_reduce #3",
        ranks=(0,),
        where=(
            "rank 0 /home/me/job/train.py:61 main",
            "rank 1 /home/me/job/train.py:13 agree",
            "rank 2 /home/me/job/train.py:13 agree",
        ),
        measured={"seq": 3, "group": "default", "calls": {"0": 3, "1": 3, "2": 3}},
    ),
    Sick(  # the rank has gone over fewer keys than its peers, and trains again
        evidence=flights(
            [BATCH, KEY, KEY, KEY, waits(KEY)],
            [BATCH, KEY, KEY, KEY, waits(BATCH)],
            [BATCH, KEY, KEY, KEY, waits(KEY)],
            code=REDUCES,
        ),
        says="rank 1 left `for key in sorted(seen)` after 3 calls of all_reduce, and ranks 0,2 make one more",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:9 reduce",
            "rank 1 /home/me/job/train.py:61 main",
            *at("/home/me/job/train.py:10 reduce", 0, 2),
        ),
        measured={"seq": 5, "group": "default", "turns": 3},
    ),
    Sick(  # the rank goes over more keys; a `break` may have ended the loop of its peers
        evidence=flights([KEY, waits(KEY)], *[[KEY, waits(BATCH)]] * 2, code=MAY_BREAK),
        says="ranks 1-2 left `for key in sorted(seen)` after 1 call of all_reduce, and rank 0 makes one more",
        ranks=(0,),
        where=(
            "rank 0 /home/me/job/train.py:10 reduce",
            *at("/home/me/job/train.py:11 reduce", 1, 2),
            *at("/home/me/job/train.py:61 main", 1, 2),
        ),
        measured={"seq": 2, "group": "default", "turns": 1},
    ),
    Sick(  # rings that have lost their first entries
        evidence=flights(
            record([KEY, KEY, waits(KEY)], world=3, first=50, lost=49),
            record([KEY, KEY, waits(BATCH)], world=3, first=50, lost=49),
            record([KEY, KEY, waits(KEY)], world=3, first=50, lost=49),
            code=REDUCES,
        ),
        says="rank 1 left `for key in sorted(seen)` after at least 2 calls of all_reduce, and ranks 0,2 make one more",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:9 reduce",
            "rank 1 /home/me/job/train.py:61 main",
            *at("/home/me/job/train.py:10 reduce", 0, 2),
        ),
        measured={"seq": 52, "group": "default", "turns": 2},
    ),
    Sick(  # the rank may have another batch, whose keys it goes over, or another key
        evidence=flights(
            [KEY, KEY, waits(BARRIER)], [KEY, KEY, waits(KEY)], [KEY, KEY, waits(BARRIER)], code=IN_TWO_LOOPS
        ),
        says="rank 1 called all_reduce #3 where ranks 0,2 called barrier #3: it makes a turn of `for images, labels in loader` "
        "more, or left that call out before",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:10 reduce", *at("/home/me/job/train.py:120 main", 0, 2)),
        measured={"seq": 3, "group": "default", "calls": {"0": 3, "1": 3, "2": 3}},
    ),
    Sick(  # nothing tells whether the rank has another batch, or never came into the loop over keys
        evidence=flights([BATCH, waits(KEY)], [BATCH, waits(BATCH)], [BATCH, waits(KEY)], code=REDUCES),
        says="rank 1 called all_reduce #2 where ranks 0,2 called all_reduce #2: it makes a turn of `for images, labels in "
        "loader` more, or left that call out before",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:61 main", *at("/home/me/job/train.py:10 reduce", 0, 2)),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2, "2": 2}},
    ),
)

SICK = (
    *OF_TURNS,
    Sick(  # a `continue` above both calls is none that the odd rank took
        evidence=flights(
            [FORWARD, Did("broadcast", line=64), FORWARD, waits(Did("broadcast", line=64))],
            *[[FORWARD, STEP, FORWARD, LAST]] * 2,
            code=[
                CodePlace(file=TRAIN, line=line, function="train_step", loops=(SKIPS,), conditions=under)
                for line, under in (
                    (58, ()),
                    (61, (Condition(line=60, test="rank != 0", branch=0, by_rank=True),)),
                    (64, ()),
                )
            ],
        ),
        says="rank 0 never called all_reduce #2 that ranks 1-2 call: the next that it called was broadcast #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:64 train_step", *at("/home/me/job/train.py:61 train_step", 1, 2)),
        measured={"seq": 2, "group": "default", "calls": {"0": 4, "1": 4, "2": 4}},
    ),
    Sick(  # the loop that all are in has a `continue` between the two calls
        evidence=flights(
            [FORWARD, STEP, FORWARD, waits(FORWARD)],
            *[[FORWARD, STEP, FORWARD, LAST]] * 2,
            code=[replace(place, loops=(SKIPS,)) for place in IN_A_TURN],
        ),
        says="rank 0 never called all_reduce #4 that ranks 1-2 call: the next that it called was broadcast #4",
        ranks=(0,),
        where=(
            "rank 0 /home/me/job/train.py:60 train_step",
            "rank 0 /home/me/job/train.py:58 train_step",
            *at("/home/me/job/train.py:61 train_step", 1, 2),
        ),
        measured={"seq": 4, "group": "default", "calls": {"0": 4, "1": 4, "2": 4}},
    ),
    Sick(  # at the end of the program, of two ranks: the test above the call tells whose it is
        evidence=flights(
            [STEP, waits(Did("barrier", line=97))], [STEP], code=AT_THE_END, facts={1: (RankExit(exit_code=0),)}
        ),
        says="rank 0 called barrier #2 that rank 1 never calls: it ended with exit code 0",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:97 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 1}},
    ),
    Sick(  # so it does where all but one make the call
        evidence=flights(
            *([STEP, waits(Did("barrier", line=97))] for _ in range(3)),
            [STEP],
            code=AT_THE_END,
            facts={3: (RankExit(exit_code=0),)},
        ),
        says="rank 3 never called barrier #2 that ranks 0-2 call: it ended with exit code 0",
        ranks=(3,),
        where=tuple(f"rank {number} /home/me/job/train.py:97 train_step" for number in range(3)),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2, "2": 2, "3": 1}},
    ),
    Sick(  # a rank that ended had made the call in an earlier epoch, and then a `return` under a test of the rank led it past it
        evidence=flights(
            [Did("barrier", line=97), Did("barrier", line=97), waits(Did("barrier", line=97))],
            [Did("barrier", line=97), Did("barrier", line=97), waits(Did("barrier", line=97))],
            [Did("barrier", line=97), Did("barrier", line=97)],
            code=BUT_LATER_2,
            facts={2: (RankExit(exit_code=0),)},
        ),
        says="rank 2 never called barrier #3 that ranks 0-1 call: it ended with exit code 0",
        ranks=(2,),
        where=("rank 0 /home/me/job/train.py:97 train_step", "rank 1 /home/me/job/train.py:97 train_step"),
        measured={"seq": 3, "group": "default", "calls": {"2": 2, "0": 3, "1": 3}},
    ),
    Sick(  # of three ranks that make it, two were ended before they could say so: the test says who they are
        evidence=flights(
            record([STEP, Did("barrier", line=97)], world=4),
            record([STEP], world=4),
            code=ALL_BUT_1,
            facts={0: (LOST_PEER,), 1: (RankExit(exit_code=0),)},
            job=(JobSize(ranks=4),),
        ),
        says="rank 1 never called barrier #2 that rank 0 calls: it ended with exit code 0",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:97 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 1}},
    ),
    Sick(
        evidence=flights([STEP, EXTRA], [STEP, LAST], [STEP, LAST], [STEP, LAST], code=CODE),
        says="rank 0 called broadcast #2 that ranks 1-3 never call",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:88 train_step", *at("/home/me/job/train.py:61 train_step", 1, 2, 3)),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2, "2": 2, "3": 2}},
    ),
    Sick(
        evidence=flights([STEP, LAST], [STEP, EXTRA], code=CODE),
        says="rank 1 called broadcast #2 that rank 0 never calls",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:88 train_step", "rank 0 /home/me/job/train.py:61 train_step"),
        measured={"seq": 2, "group": "default", "calls": {"1": 2, "0": 2}},
    ),
    Sick(  # rank 0 came to it after two steps, as in the epoch before
        evidence=flights(
            [EVALUATED, STEP, STEP, EVALUATED, STEP, STEP, waits(EVALUATED)],
            [EVALUATED, STEP, STEP, EVALUATED, STEP, STEP, LAST],
            code=CODE,
        ),
        says="rank 0 called all_gather #7 that rank 1 never calls; no majority: either side may be at fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:95 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 7, "group": "default", "calls": {"0": 7, "1": 7}},
    ),
    Sick(
        evidence=flights([STEP, EXTRA], [STEP, EXTRA], [STEP, LAST], code=CODE),
        says="rank 2 never called broadcast #2 that ranks 0-1 call: the next that it called was all_reduce #2",
        ranks=(2,),
        where=("rank 2 /home/me/job/train.py:61 train_step", *at("/home/me/job/train.py:88 train_step", 0, 1)),
        measured={"seq": 2, "group": "default", "calls": {"2": 2, "0": 2, "1": 2}},
    ),
    Sick(
        evidence=flights([STEP, SLIPPED, STEP, LAST], [STEP, STEP, STEP, END], [STEP, STEP, STEP, END], backend="gloo"),
        says="rank 0 issued 1 extra call (all_reduce #2); later calls were mispaired until all_reduce #4 met barrier #4",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:88 train_step", *at("/home/me/job/train.py:61 train_step", 1, 2)),
        measured={"seq": 2, "group": "default", "calls": {"0": 4, "1": 4, "2": 4}},
    ),
    Sick(
        evidence=flights(
            [STEP, END], [STEP], [STEP], [STEP], facts={rank: (RankExit(exit_code=0),) for rank in (1, 2, 3)}
        ),
        says="rank 0 called barrier #2 that ranks 1-3 never call: they ended with exit code 0",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:95 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 1, "2": 1, "3": 1}},
    ),
    Sick(  # it had called so before, which put its iterations out of step
        evidence=flights(
            [STEP, STEP, STEP, EXTRA],
            [STEP, STEP, STEP, LAST],
            [STEP, STEP, STEP, LAST],
            code=CODE,
            facts={0: (in_step(0, 2),), 1: (in_step(0, 1),), 2: (in_step(0, 1),)},
        ),
        says="rank 0 called broadcast #4 that ranks 1-2 never call",
        ranks=(0,),
        also=("DDP316",),
        where=("rank 0 /home/me/job/train.py:88 train_step", *at("/home/me/job/train.py:61 train_step", 1, 2)),
        measured={"seq": 4, "group": "default", "calls": {"0": 4, "1": 4, "2": 4}},
    ),
    Sick(  # once more round an evaluation that comes behind the loop of each epoch
        evidence=flights(
            [STEP, EVALUATED, waits(EVALUATED)], [STEP, EVALUATED, LAST], [STEP, EVALUATED, LAST], code=CODE
        ),
        says="rank 0 called all_gather #3 that ranks 1-2 never call",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:95 train_step", *at("/home/me/job/train.py:61 train_step", 1, 2)),
        measured={"seq": 3, "group": "default", "calls": {"0": 3, "1": 3, "2": 3}},
    ),
    Sick(
        evidence=flights(
            [STEP, Did("broadcast", line=88)],
            [STEP],
            [STEP],
            facts={0: (LOST_PEER,), 1: (RankExit(exit_code=0),), 2: (RankExit(exit_code=0),)},
        ),
        says="rank 0 called broadcast #2 that ranks 1-2 never call: they ended with exit code 0",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:88 train_step",),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 1, "2": 1}},
    ),
    Sick(  # nobody prepared the job: its stacks are all there is, and a step has several collectives
        evidence=hang(rank(IN_BACKWARD), rank(IN_FORWARD), rank(IN_BROADCAST), facts=(SEEN,), seconds=None),
        says="rank 2 waits in broadcast while ranks 0-1 wait in backward or forward",
        ranks=(2,),
        where=(
            "rank 2 /job/train.py:88 train_step",
            "rank 0 /job/train.py:61 train_step",
            "rank 1 /job/train.py:60 train_step",
        ),
    ),
    Sick(
        evidence=hang(rank(IN_BROADCAST), rank(IN_BACKWARD), facts=(SEEN,), seconds=None),
        says="rank 0 waits in broadcast while rank 1 waits in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 train_step", "rank 1 /job/train.py:61 train_step"),
    ),
    Sick(  # all others have come to the end of the program: of two ranks, too, the test of the rank decides
        evidence=hang(rank(IN_BROADCAST), (RankExit(exit_code=0),), facts=(SEEN,), seconds=None),
        says="rank 0 waits in broadcast that rank 1 never calls: it ended with exit code 0",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 train_step",),
    ),
    Sick(  # the test names those that wait: the other one left the call out
        evidence=hang((RankExit(exit_code=0),), *[rank(IN_BROADCAST)] * 3, facts=(ALL_BUT_0,), seconds=None),
        says="ranks 1-3 wait in broadcast that rank 0 never calls: it ended with exit code 0",
        ranks=(0,),
        where=tuple(f"rank {number} /job/train.py:88 train_step" for number in (1, 2, 3)),
    ),
    Sick(  # recorders do not show monitored_barrier
        evidence=hang(
            (*rank(IN_MONITORED_BARRIER), record([STEP])),
            *[(*rank(), record([STEP, waits(STEP)]))] * 2,
            facts=(SEEN,),
        ),
        says="rank 0 waits in monitored_barrier while ranks 1-2 wait in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 train_step", *at("/job/train.py:61 train_step", 1, 2)),
    ),
    Sick(  # no recorder: rank 1 called another forward, and its reduction in the next step was one more
        evidence=replace(
            ranks(
                replace(in_step(0, 2, 4), forwards=called_from(20, 20)),
                replace(in_step(0, 2, 6), forwards=called_from(20, 22)),
            ),
            job=(SourceCode(places=UNDER_A_TEST),),
        ),
        says="rank 1 called forward 2 inside `if rank == 0` (train.py:21) where rank 0 was elsewhere; its collectives were "
        "paired with those of other forwards",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:22 main",),
        measured={"forward": 2},
    ),
    Sick(  # an epoch more beside the checkpoint of rank 0: its forwards met those of later epochs, until its peer had ended
        evidence=flights(
            [STEP],
            [STEP, waits(STEP)],
            code=UNDER_A_TEST,
            facts={
                0: (RankExit(exit_code=0), CollectiveCalls(forwards=called_from(20, 20))),
                1: (CollectiveCalls(forwards=called_from(20, 22)),),
            },
        ),
        says="rank 1 called forward 2 inside `if rank == 0` (train.py:21) where rank 0 was elsewhere; its collectives were "
        "paired with those of other forwards",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:22 main",),
        measured={"forward": 2},
    ),
)

ASKED = Request(
    file=TRAIN, line=40, function="on_step_end", text="control.should_evaluate = True", wants="call",
    conditions=(Condition(line=39, test="state.global_step == 5 and args.process_index == 1", branch=0),),
)  # fmt: skip
IN_EVALUATE = waits(Did("all_gather", line=210, function="evaluate"))


def counted(*each: int, table: bool = True, lost: int = 0, number: int = 0, taken_at: float | None = None) -> Evidence:
    """Ranks that polled their all_reduces and ended: `each` is how many they called, by the recorder's own count."""
    records = [record([Did("all_reduce", line=88)] * count, backend="gloo", world=len(each)) for count in each]
    told = [
        replace(
            one,
            groups=tuple(replace(group, last_enqueued=(number or count) if table else None) for group in one.groups),
            lost=lost,
            taken_at=taken_at,
        )
        for one, count in zip(records, each, strict=True)
    ]
    skips = CodePlace(file=TRAIN, line=88, function="train_step", loops=(replace(LOOP, skips=(87,)),))
    ends = {rank: (RankExit(exit_code=0),) for rank in range(len(each))}
    return flights(*told, backend="gloo", code=(skips,), facts=ends)


SICK = (
    *SICK,
    Sick(  # a callback of one rank asked the framework for an evaluation: no line of it is above the call
        evidence=flights([STEP, waits(STEP)], [STEP, IN_EVALUATE], job=(SourceCode(places=CODE, requests=(ASKED,)),)),
        says="rank 1 called all_gather #2 that rank 0 never calls",
        ranks=(1,),
        where=(
            "rank 1 /home/me/job/train.py:40 on_step_end",
            "rank 1 /home/me/job/train.py:210 evaluate",
            "rank 0 /home/me/job/train.py:61 train_step",
        ),
        measured={"seq": 2, "group": "default", "calls": {"0": 2, "1": 2}},
    ),
)
SICK = (
    *SICK,
    Sick(
        evidence=counted(12, 11, 12),
        says="rank 1 called 11 collectives of the default group and ranks 0,2 12, and all ended with exit code 0: calls were "
        "mispaired, or had no partner",
        ranks=(1,),
        where=tuple(f"rank {rank} /home/me/job/train.py:88 train_step" for rank in (1, 0, 2)),
        measured={"seq": 12, "group": "default", "calls": {"0": 12, "1": 11, "2": 12}},
    ),
)
HEALTHY = (
    counted(12, 12, 12),
    counted(12, 11, 12, table=False),  # the calls that the agent saw: C++ may have made more
    counted(12, 11, 12, lost=9),  # rings that have lost their first entries
    counted(12, 11, 12, taken_at=1.8e9),  # asked for during a stall: the ranks may have called more before they ended
    counted(12, 12, 12, number=18),  # a monitored barrier took more numbers
    flights([STEP, Did("broadcast", line=88), STEP], [STEP, Did("broadcast", line=61), STEP], code=CODE),
    flights([STEP, STEP], [STEP, STEP], facts={0: (RankExit(exit_code=0),)}),
)
