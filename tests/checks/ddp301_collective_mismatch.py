"""One rank in another operation at the same call, by majority and with two ranks; ranks that agree."""

from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.source import CodePlace, Condition
from tests.checks import Sick
from tests.endings import ended, gave_up, raised
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


def refused(own: int, other: int, prints: tuple[str, ...]) -> RankExit:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL makes rank `own` raise, which compared itself with rank `other`."""
    return raised(
        f"Detected mismatch between collectives on ranks. Rank {own} is running collective: CollectiveFingerPrint({prints[own]}, "
        f"TensorDtypes=Float), but Rank {other} is running collective: CollectiveFingerPrint({prints[other]}, "
        "TensorDtypes=Float).Collectives differ in the following aspects: \t ",
        order=own,
    )


REDUCES = "SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[2]"
PRINTS = (REDUCES, "SequenceNumber=4, OpType=BROADCAST, TensorShape=[2]", REDUCES)

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
    Sick(
        evidence=ended(refused(0, 1, PRINTS), refused(1, 0, PRINTS), refused(2, 1, PRINTS)),
        says="rank 1 was about to call broadcast #4 where ranks 0,2 were about to call all_reduce #4, and PyTorch refused",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(gave_up(0), gave_up(1), gave_up(2, "BROADCAST"), gave_up(3)),
        says="rank 2 called broadcast #41 where ranks 0-1,3 called all_reduce #41, as their watchdogs say",
        ranks=(2,),
        also=("DDP408",),
    ),
)
HEALTHY = (
    flights([STEP, STEP], [STEP, STEP]),
    flights([STEP, Did("broadcast", line=61)], [STEP, Did("broadcast", line=63)]),
)
