"""Shapes that do not belong together, noticed or not; uneven sizes that are legal."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import GivenSize
from tests.checks import Sick, at, ranks
from tests.flight_records import STEP, Did, flights, record, waits
from tests.hangs import C10D, TORCH
from tests.rank_ends import LOST_PEER, WRONG_SIZE, ended, gave_up, raised

LONG = Did("all_reduce", sizes=((20,),))
WIDE = Did("all_reduce", sizes=((2, 6),))
TALL = Did("all_reduce", sizes=((3, 4),))
GAVE_10 = GivenSize(op="all_reduce", size=(10, 10), place=Frame(file="/home/me/job/train.py", line=70, function="log"))


def gathers(own: int, sizes: tuple[int, ...]) -> list[Did]:
    return [Did("all_gather", sizes=((own,),), outputs=tuple((size,) for size in sizes))]


def stacked(own: int, *, world: int) -> list[Did]:
    """As gloo's recorder has it."""
    return [Did("all_gather", sizes=((own,),), outputs=((world, own),))]


def gathered_by_the_killed(own: int, *, world: int = 3) -> FlightRecord:
    """What is left of a rank that took its recorder with it: nobody knows the list that it gathers into."""
    left = record(gathers(own, (own,)), world=world)
    return replace(left, calls=tuple(replace(call, output_sizes=()) for call in left.calls))


def refused(own: int, other: int, prints: tuple[str, ...]) -> RankExit:
    """What TORCH_DISTRIBUTED_DEBUG=DETAIL makes rank `own` raise, which compared itself with rank `other`."""
    return raised(
        f"Detected mismatch between collectives on ranks. Rank {own} is running collective: CollectiveFingerPrint({prints[own]}, "
        f"TensorDtypes=Float), but Rank {other} is running collective: CollectiveFingerPrint({prints[other]}, "
        "TensorDtypes=Float).Collectives differ in the following aspects: \t ",
        order=own,
    )


PRINTS = tuple(f"SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[{size}]" for size in ("2", "2", "2, 3"))

ENDED = RankExit(exit_code=-15, ended_by_launcher=True)
AWAITS = RankExit(
    exit_code=-6,
    tail=(WRONG_SIZE,),
    native_stack=(Frame(file="/home/me/job/train.py", line=90, function="save"),),
)
ABORTED = replace(
    AWAITS,
    native_stack=(
        Frame(file=C10D, line=3151, function="broadcast"),
        Frame(file=f"{TORCH}/distributed/c10d_logger.py", line=83, function="wrapper"),
        *AWAITS.native_stack,
    ),
)
FUNCTIONAL = f"{TORCH}/distributed/_functional_collectives.py"
GATHERS = replace(  # `full_tensor()`
    AWAITS,
    native_stack=(
        Frame(file=f"{TORCH}/_ops.py", line=1279, function="__call__"),
        Frame(file=FUNCTIONAL, line=142, function="wait_tensor"),
        Frame(file=f"{TORCH}/distributed/tensor/_redistribute.py", line=1766, function="redistribute_local_tensor"),
        *AWAITS.native_stack,
    ),
)
TOUCHES = replace(  # `asynchronous_result + 1`
    AWAITS,
    native_stack=(
        Frame(file=f"{TORCH}/_ops.py", line=1279, function="__call__"),
        Frame(file=FUNCTIONAL, line=142, function="wait_tensor"),
        Frame(file=FUNCTIONAL, line=1101, function="__torch_dispatch__"),
        *AWAITS.native_stack,
    ),
)
SHARDS = replace(  # the forward of FSDP2
    ABORTED,
    native_stack=(
        *ABORTED.native_stack[:2],
        Frame(
            file=f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_collectives.py", line=190, function="foreach_all_gather"
        ),
        *AWAITS.native_stack,
    ),
)


def aborted(ending: RankExit, *, ranks: tuple[int, ...]) -> Sick:
    """Gloo aborted rank 2, and with it went its recorder; `ranks` are named."""
    lines = tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in (0, 1))
    its = ("rank 2 /home/me/job/train.py:90 save",)
    return Sick(
        evidence=ended(*((record([STEP, waits(STEP)], world=3), ENDED) for _ in range(2)), (ending,)),
        says="rank 2 received 180 bytes in a collective where 68 were expected: shapes, dtypes or the collectives themselves "
        "differ between ranks",
        ranks=ranks,
        where=(*its, *lines) if ranks else (*lines, *its),
        also=("DDP408",),
        measured={"received_bytes": 180, "expected_bytes": 68},
    )


SICK = (
    Sick(
        evidence=flights([STEP, waits(STEP)], [STEP, waits(LONG)], [STEP, waits(STEP)]),
        says="rank 1 gave all_reduce #2 a tensor of shape [20], ranks 0,2 [10]",
        ranks=(1,),
        where=at("/home/me/job/train.py:61 train_step", 1, 0, 2),
        measured={"seq": 2, "group": "default", "shapes": {"0": "[10]", "1": "[20]", "2": "[10]"}, "more": 0},
    ),
    Sick(
        evidence=flights([WIDE, STEP], [TALL, STEP], backend="gloo"),
        says="rank 0 gave all_reduce #1 a tensor of shape [2, 6], rank 1 [3, 4], without an error",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 1, "group": "default", "shapes": {"0": "[2, 6]", "1": "[3, 4]"}, "more": 0},
    ),
    Sick(
        evidence=flights(gathers(4, (4, 4)), gathers(6, (6, 6))),
        says="rank 0 gave all_gather #1 a tensor of shape [4], rank 1 [6]",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 1, "group": "default", "shapes": {"0": "[4]", "1": "[6]"}, "more": 0},
    ),
    Sick(
        evidence=flights(stacked(6, world=2), gathered_by_the_killed(4, world=2)),
        says="rank 0 gave all_gather #1 a tensor of shape [6], rank 1 [4]",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 1, "group": "default", "shapes": {"0": "[6]", "1": "[4]"}, "more": 0},
    ),
    Sick(
        evidence=flights(gathers(6, (6, 6, 6)), gathered_by_the_killed(4), gathers(4, (4, 4, 4))),
        says="rank 0 gave all_gather #1 a tensor of shape [6], ranks 1-2 [4]",
        ranks=(0,),
        where=at("/home/me/job/train.py:61 train_step", 0, 1, 2),
        measured={"seq": 1, "group": "default", "shapes": {"0": "[6]", "1": "[4]", "2": "[4]"}, "more": 0},
    ),
    Sick(
        evidence=ended(RankExit(exit_code=-6, tail=(WRONG_SIZE,)), LOST_PEER),
        says="rank 0 received 180 bytes in a collective where 68 were expected: shapes, dtypes or the collectives themselves "
        "differ between ranks",
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"received_bytes": 180, "expected_bytes": 68},
    ),
    aborted(ABORTED, ranks=(2,)),  # it had left its loop
    aborted(GATHERS, ranks=(2,)),
    aborted(AWAITS, ranks=()),  # `work.wait()`: its line is not that of the call
    aborted(TOUCHES, ranks=()),
    aborted(SHARDS, ranks=()),
    Sick(
        evidence=ended(refused(0, 2, PRINTS), refused(1, 2, PRINTS), refused(2, 0, PRINTS)),
        says="rank 2 was about to give all_reduce #4 a tensor of shape [2, 3] where ranks 0-1 were about to give all_reduce #4 a "
        "tensor of shape [2], and PyTorch refused",
        ranks=(2,),
        where=at("/home/me/job/train.py:48 train", 2, 0, 1),
    ),
    Sick(
        evidence=ended(gave_up(0), gave_up(1, numel=500), gave_up(2)),
        says="rank 1 gave all_reduce #41 500 elements, ranks 0,2 1000, as their watchdogs say",
        ranks=(1,),
        also=("DDP408",),
        measured={"elements": {"0": 1000, "1": 500, "2": 1000}},
    ),
    Sick(  # enqueued behind each other, as on a GPU
        evidence=flights(
            [STEP, WIDE, LONG, STEP, waits(LONG), waits(WIDE)],
            [STEP, WIDE, LONG, STEP, waits(WIDE), waits(LONG)],
            [STEP, WIDE, LONG, STEP, waits(WIDE), waits(LONG)],
        ),
        says="rank 0 gave all_reduce #5 a tensor of shape [20], ranks 1-2 [2, 6], also in 1 later calls: these ranks made "
        "the same 2 calls in different orders",
        ranks=(0,),
        where=tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in range(3)),
        measured={"seq": 5, "group": "default", "shapes": {"0": "[20]", "1": "[2, 6]", "2": "[2, 6]"}, "more": 1},
    ),
    Sick(  # told by stacks alone
        evidence=ranks(GAVE_10, GAVE_10, replace(GAVE_10, size=(11, 11))),
        says="rank 2 gave all_reduce a tensor of shape [11, 11], ranks 0-1 [10, 10]",
        ranks=(2,),
        where=tuple(f"rank {rank} /home/me/job/train.py:70 log" for rank in (2, 0, 1)),
        measured={"shapes": {"0": "[10, 10]", "1": "[10, 10]", "2": "[11, 11]"}},
    ),
    Sick(
        evidence=ranks(GAVE_10, replace(GAVE_10, size=(10,))),
        says="rank 0 gave all_reduce a tensor of shape [10, 10], rank 1 [10]; no majority: either side may be at fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:70 log", "rank 1 /home/me/job/train.py:70 log"),
        measured={"shapes": {"0": "[10, 10]", "1": "[10]"}},
    ),
)
HEALTHY = (
    ranks(GAVE_10, GAVE_10),
    flights([WIDE, STEP], [WIDE, STEP]),
    flights(gathers(4, (4, 6)), gathers(6, (4, 6))),
    flights(stacked(4, world=2), gathered_by_the_killed(4, world=2)),
    flights(gathers(4, (4, 6, 4)), gathered_by_the_killed(6), gathers(4, (4, 6, 4))),
    flights(
        [Did("reduce_scatter", sizes=((4,), (6,)), outputs=((4,),))],
        [Did("reduce_scatter", sizes=((4,), (6,)), outputs=((6,),))],
    ),
)
