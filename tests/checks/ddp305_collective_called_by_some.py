"""A call under `if rank == 0`, one turn too many, a call that slipped in and was paired wrongly; a healthy pair of branches."""

from dataclasses import replace

from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode
from tests.checks import Sick
from tests.endings import LOST_PEER
from tests.flights import STEP, TRAIN, Did, flights, waits
from tests.standstills import IN_BACKWARD, SCRIPT, TORCH, rank, stack, standstill

LOOP = Loop(line=55, last_line=90, head="for images, labels in loader")
ONLY_RANK_0 = Condition(line=85, last_line=88, test="rank == 0", branch=0)
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=88, function="train_step", loops=(LOOP,), conditions=(ONLY_RANK_0,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)
EXTRA = waits(Did("broadcast", line=88))
EVALUATED = Did("all_gather", line=95)
END = waits(Did("barrier", line=95))
SLIPPED = Did("all_reduce", line=88)
LAST = waits(Did("all_reduce", line=61))
DDP = f"{TORCH}/nn/parallel/distributed.py"
IN_FORWARD = stack((DDP, 1530, "_pre_forward"), (DDP, 1632, "forward"), user=(60, "train_step"))
IN_BROADCAST = stack((f"{TORCH}/distributed/distributed_c10d.py", 2900, "broadcast"), user=(88, "train_step"))
STEPS = (*CODE, CodePlace(file=SCRIPT, line=60, function="train_step", loops=(LOOP,)))
SEEN = SourceCode(places=tuple(replace(place, file=SCRIPT) for place in STEPS))


def in_step(*seq: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=made) for number, made in enumerate(seq)))


SICK = (
    Sick(
        evidence=flights([STEP, EXTRA], [STEP, LAST], [STEP, LAST], [STEP, LAST], code=CODE),
        says="rank 0 called broadcast #2 that ranks 1-3 never call",
        ranks=(0,),
    ),
    Sick(
        evidence=flights([STEP, LAST], [STEP, EXTRA], code=CODE),
        says="rank 1 called broadcast #2 that rank 0 never calls; of two sides neither can be told right",
        ranks=(0, 1),
    ),
    Sick(  # rank 0 came to it after two steps, as in the epoch before
        evidence=flights(
            [EVALUATED, STEP, STEP, EVALUATED, STEP, STEP, waits(EVALUATED)],
            [EVALUATED, STEP, STEP, EVALUATED, STEP, STEP, LAST],
            code=CODE,
        ),
        says="rank 0 called all_gather #7 that rank 1 never calls; of two sides neither can be told right",
        ranks=(0, 1),
    ),
    Sick(
        evidence=flights([STEP, EXTRA], [STEP, EXTRA], [STEP, LAST], code=CODE),
        says="rank 2 never called broadcast #2 that ranks 0-1 call: the next that it called was all_reduce #2",
        ranks=(2,),
    ),
    Sick(
        evidence=flights([STEP, END], [STEP, END], [STEP, LAST], [STEP, END], code=CODE),
        says="rank 2 called all_reduce #2 that ranks 0-1,3 never call",
        ranks=(2,),
    ),
    Sick(
        evidence=flights([STEP, SLIPPED, STEP, LAST], [STEP, STEP, STEP, END], [STEP, STEP, STEP, END], backend="gloo"),
        says="rank 0 called all_reduce #2 that ranks 1-2 never call: wrong calls were paired until all_reduce #4 met barrier #4",
        ranks=(0,),
    ),
    Sick(
        evidence=flights(
            [STEP, END], [STEP], [STEP], [STEP], facts={rank: (RankExit(exit_code=0),) for rank in (1, 2, 3)}
        ),
        says="rank 0 called barrier #2 that ranks 1-3 never call: they ended with exit code 0",
        ranks=(0,),
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
    ),
    Sick(  # once more round an evaluation that comes behind the loop of each epoch
        evidence=flights(
            [STEP, EVALUATED, waits(EVALUATED)], [STEP, EVALUATED, LAST], [STEP, EVALUATED, LAST], code=CODE
        ),
        says="rank 0 called all_gather #3 that ranks 1-2 never call",
        ranks=(0,),
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
    ),
    Sick(  # nobody prepared the job: its stacks are all there is, and a step has several collectives
        evidence=standstill(rank(IN_BACKWARD), rank(IN_FORWARD), rank(IN_BROADCAST), facts=(SEEN,), seconds=None),
        says="rank 2 waits in broadcast while ranks 0-1 wait in backward or forward",
        ranks=(2,),
    ),
    Sick(
        evidence=standstill(rank(IN_BROADCAST), rank(IN_BACKWARD), facts=(SEEN,), seconds=None),
        says="rank 0 waits in broadcast while rank 1 waits in backward; of two sides neither can be told right",
        ranks=(0, 1),
    ),
)
HEALTHY = (
    flights([STEP, Did("broadcast", line=88), STEP], [STEP, Did("broadcast", line=61), STEP], code=CODE),
    flights([STEP, STEP], [STEP, STEP], facts={0: (RankExit(exit_code=0),)}),
)
