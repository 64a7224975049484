"""One rank in another operation at the same call, by majority and with two ranks; ranks that agree."""

from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Request, SourceCode
from tests.checks import Sick, at
from tests.flight_records import STEP, TRAIN, Did, flights, waits
from tests.rank_ends import ended, gave_up, raised

HERE = waits(Did("all_reduce", line=61))
THERE = waits(Did("broadcast", line=63))
BRANCHES = tuple(
    CodePlace(
        file=TRAIN,
        line=line,
        function="train_step",
        conditions=(Condition(line=60, test="rank == 0", branch=branch),),
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

SYNCS = Request(
    file=TRAIN, line=59, function="train_step", text="model.set_requires_gradient_sync(last or rank == 0)",
    wants="accumulate",
)  # fmt: skip
WITHOUT_DDP = SourceCode(
    places=(
        CodePlace(file=TRAIN, line=61, function="train_step", calls=("loss.backward",)),
        CodePlace(file=TRAIN, line=63, function="train_step", calls=("model",)),
    ),
    requests=(SYNCS,),
)

SICK = (
    Sick(
        evidence=flights([STEP, HERE], [STEP, THERE], [STEP, THERE], job=(WITHOUT_DDP,)),
        says="rank 0 called all_reduce #2 where ranks 1-2 called broadcast #2",
        ranks=(0,),
        where=(
            "/home/me/job/train.py:59 train_step",
            "rank 0 /home/me/job/train.py:61 train_step",
            "rank 1 /home/me/job/train.py:63 train_step",
            "rank 2 /home/me/job/train.py:63 train_step",
        ),
        measured={
            "seq": 2,
            "group": "default",
            "operations": {"rank 0": "all_reduce", "rank 1": "broadcast", "rank 2": "broadcast"},
        },
    ),
    Sick(
        evidence=flights([STEP, HERE], [STEP, THERE], [STEP, THERE], [STEP, THERE], code=BRANCHES),
        says="rank 0 called all_reduce #2 where ranks 1-3 called broadcast #2",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step", *at("/home/me/job/train.py:63 train_step", 1, 2, 3)),
        measured={
            "seq": 2,
            "group": "default",
            "operations": {"rank 0": "all_reduce", "rank 1": "broadcast", "rank 2": "broadcast", "rank 3": "broadcast"},
        },
    ),
    Sick(
        evidence=flights([STEP, THERE], [STEP, THERE], [STEP, HERE], [STEP, THERE], backend="gloo"),
        says="rank 2 called all_reduce #2 where ranks 0-1,3 called broadcast #2",
        ranks=(2,),
        where=("rank 2 /home/me/job/train.py:61 train_step", *at("/home/me/job/train.py:63 train_step", 0, 1, 3)),
        measured={
            "seq": 2,
            "group": "default",
            "operations": {"rank 0": "broadcast", "rank 1": "broadcast", "rank 2": "all_reduce", "rank 3": "broadcast"},
        },
    ),
    Sick(
        evidence=flights([STEP, HERE], [STEP, THERE], code=BRANCHES),
        says="rank 0 called all_reduce #2 where rank 1 called broadcast #2; no majority: either side may be at fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:63 train_step"),
        measured={"seq": 2, "group": "default", "operations": {"rank 0": "all_reduce", "rank 1": "broadcast"}},
    ),
    Sick(
        evidence=ended(refused(0, 1, PRINTS), refused(1, 0, PRINTS), refused(2, 1, PRINTS)),
        says="rank 1 was about to call broadcast #4 where ranks 0,2 were about to call all_reduce #4, and PyTorch refused",
        ranks=(1,),
        where=at("/home/me/job/train.py:48 train", 1, 0, 2),
        measured={"operations": {"rank 0": "all_reduce", "rank 1": "broadcast", "rank 2": "all_reduce"}},
    ),
    Sick(
        evidence=ended(gave_up(0), gave_up(1), gave_up(2, "BROADCAST"), gave_up(3)),
        says="rank 2 called broadcast #41 where ranks 0-1,3 called all_reduce #41, as their watchdogs say",
        ranks=(2,),
        also=("DDP408",),
        measured={
            "operations": {
                "rank 0": "all_reduce",
                "rank 1": "all_reduce",
                "rank 2": "broadcast",
                "rank 3": "all_reduce",
            }
        },
    ),
)
HEALTHY = (
    flights([STEP, STEP], [STEP, STEP]),
    flights([STEP, Did("broadcast", line=61)], [STEP, Did("broadcast", line=63)]),
)
