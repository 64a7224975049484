"""One rank in another operation at the same call, by majority and with two ranks; ranks that agree."""

from ddpdoctor.evidence.source import CodePlace, Condition
from tests.checks import Sick
from tests.flights import STEP, TRAIN, Did, flights, waits

HERE = waits(Did("all_reduce", line=61))
THERE = waits(Did("broadcast", line=63))
BRANCHES = tuple(
    CodePlace(
        file=TRAIN,
        line=line,
        function="train_step",
        conditions=(Condition(line=60, last_line=63, test="rank == 0", branch=branch),),
    )
    for branch, line in enumerate((61, 63))
)

SICK = (
    Sick(
        evidence=flights([STEP, HERE], [STEP, THERE], [STEP, THERE], [STEP, THERE], code=BRANCHES),
        says="rank 0 called all_reduce #2 where ranks 1-3 called broadcast #2",
        ranks=(0,),
    ),
    Sick(
        evidence=flights([STEP, THERE], [STEP, THERE], [STEP, HERE], [STEP, THERE], backend="gloo"),
        says="rank 2 called all_reduce #2 where ranks 0-1,3 called broadcast #2",
        ranks=(2,),
    ),
    Sick(
        evidence=flights([STEP, HERE], [STEP, THERE], code=BRANCHES),
        says="rank 0 called all_reduce #2 where rank 1 called broadcast #2; no majority tells which is right",
        ranks=(0, 1),
    ),
)
HEALTHY = (
    flights([STEP, STEP], [STEP, STEP]),
    flights([STEP, Did("broadcast", line=61)], [STEP, Did("broadcast", line=63)]),
)
