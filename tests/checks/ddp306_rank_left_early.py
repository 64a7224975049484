"""A rank past its loop, or gone with exit code 0, while others are in the next step; ranks that end together."""

from dataclasses import replace

from ddpdoctor.evidence.ranks import RankExit, StepCount
from ddpdoctor.evidence.source import CodePlace, Loop, SourceCode
from tests.checks import Sick
from tests.endings import LOST_PEER
from tests.flights import STEP, TRAIN, Did, flights, waits
from tests.standstills import SCRIPT, TORCH, rank, stack, standstill

LOOP = Loop(line=55, last_line=90, head="for images, labels in loader")
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)
NEXT = waits(STEP)
ENDED = RankExit(exit_code=-15, ended_by_launcher=True)
END = waits(Did("barrier", line=95))
EVALUATED = Did("all_gather", line=95)
SEEN = SourceCode(places=tuple(replace(place, file=SCRIPT) for place in CODE))
IN_BARRIER = stack((f"{TORCH}/distributed/distributed_c10d.py", 5000, "barrier"), user=(95, "train_step"))

SICK = (
    Sick(  # nobody prepared the job: its stacks are all there is
        evidence=standstill(rank(), rank(IN_BARRIER), facts=(SEEN,), seconds=None),
        says="rank 1 left its loop and waits in barrier while rank 0 waits in backward",
        ranks=(1,),
    ),
    Sick(
        evidence=flights(
            [STEP, NEXT],
            [STEP, END],
            [STEP, NEXT],
            [STEP, NEXT],
            code=CODE,
            facts={rank: (StepCount(steps=3 if rank == 1 else 4),) for rank in range(4)},
        ),
        says="rank 1 left its loop after 3 steps and waits in barrier #2 while ranks 0,2-3 wait in all_reduce #2, "
        "which have made 4 steps",
        ranks=(1,),
    ),
    Sick(
        evidence=flights([STEP, END], [STEP, NEXT], code=CODE),
        says="rank 0 left its loop and waits in barrier #2 while rank 1 waits in all_reduce #2",
        ranks=(0,),
    ),
    Sick(  # after one step, and after two in the epoch before
        evidence=flights(
            [EVALUATED, STEP, STEP, EVALUATED, STEP, waits(EVALUATED)],
            [EVALUATED, STEP, STEP, EVALUATED, STEP, NEXT],
            code=CODE,
        ),
        says="rank 0 left its loop and waits in all_gather #6 while rank 1 waits in all_reduce #6",
        ranks=(0,),
    ),
    Sick(
        evidence=flights(
            [STEP, NEXT],
            [STEP, waits(Did("barrier", line=101, function="main"))],
            [STEP, NEXT],
        ),
        says="rank 1 left its loop and waits in barrier #2 while ranks 0,2 wait in all_reduce #2",
        ranks=(1,),
    ),
    Sick(
        evidence=flights([STEP, NEXT], None, [STEP, NEXT], facts={1: (RankExit(exit_code=0),)}),
        says="rank 1 ended with exit code 0 while ranks 0,2 wait in all_reduce #2",
        ranks=(1,),
    ),
    Sick(  # two ranks died of it, and their recorders with them: that only one is left to wait makes it no culprit
        evidence=flights(
            [STEP, NEXT], None, [STEP], None, facts={1: (LOST_PEER,), 2: (RankExit(exit_code=0),), 3: (LOST_PEER,)}
        ),
        says="rank 2 ended with exit code 0 while rank 0 waits in all_reduce #2",
        ranks=(2,),
    ),
    Sick(  # one rank alone lost it before the launcher ended the others
        evidence=flights(
            [STEP],
            [STEP, STEP],
            None,
            None,
            facts={0: (RankExit(exit_code=0),), 1: (LOST_PEER,), 2: (ENDED,), 3: (ENDED,)},
        ),
        says="rank 0 ended with exit code 0, and rank 1 lost it in the middle of a collective",
        ranks=(0,),
    ),
)
HEALTHY = (
    flights([STEP, Did("barrier", line=95)], [STEP, Did("barrier", line=95)], code=CODE),
    flights([STEP], [STEP], facts={rank: (RankExit(exit_code=0),) for rank in range(2)}),
)
