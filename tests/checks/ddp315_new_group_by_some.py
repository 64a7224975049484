"""One rank alone in new_group; a rank that left it out; groups that all ranks made; the same by stacks alone."""

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, NewGroup
from tests.checks import Sick, ranks
from tests.checks.ddp305_collective_called_by_some import SEEN
from tests.flight_records import STEP, record, waits
from tests.hangs import TORCH, hang, rank, stack

PLACE = Frame(file="/home/me/job/train.py", line=30, function="main")
MADE = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=True, place=PLACE),))
WAITS = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=False, place=PLACE),))
NONE = CollectiveCalls()
IN_NEW_GROUP = stack(
    (f"{TORCH}/distributed/distributed_c10d.py", 970, "_store_based_barrier"),
    (f"{TORCH}/distributed/distributed_c10d.py", 5500, "_new_group_with_tag"),
    (f"{TORCH}/distributed/distributed_c10d.py", 5400, "new_group"),
    (f"{TORCH}/distributed/c10d_logger.py", 83, "wrapper"),
    user=(88, "train_step"),
)

SICK = (
    Sick(
        evidence=ranks(WAITS, NONE, NONE, NONE),
        says="rank 0 waits in new_group number 1 (of ranks 0-1) that ranks 1-3 never call",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:30 main",),
        measured={"new_groups": {"0": 1, "1": 0, "2": 0, "3": 0}},
    ),
    Sick(
        evidence=ranks(WAITS, WAITS, NONE),
        says="ranks 0-1 wait in new_group number 1 (of ranks 0-1) that rank 2 never calls",
        ranks=(2,),
        where=("rank 0 /home/me/job/train.py:30 main", "rank 1 /home/me/job/train.py:30 main"),
        measured={"new_groups": {"0": 1, "1": 1, "2": 0}},
    ),
    Sick(
        evidence=hang(rank(IN_NEW_GROUP), rank(), rank(), facts=(SEEN,), seconds=None),
        says="rank 0 waits in new_group while ranks 1-2 wait in backward",
        ranks=(0,),
        where=(
            "rank 0 /job/train.py:88 train_step",
            "rank 1 /job/train.py:61 train_step",
            "rank 2 /job/train.py:61 train_step",
        ),
    ),
    Sick(
        evidence=hang(rank(IN_NEW_GROUP), rank(IN_NEW_GROUP), rank(), facts=(SEEN,), seconds=None),
        says="rank 2 waits in backward while ranks 0-1 wait in new_group",
        ranks=(2,),
        where=(
            "rank 2 /job/train.py:61 train_step",
            "rank 0 /job/train.py:88 train_step",
            "rank 1 /job/train.py:88 train_step",
        ),
    ),
    Sick(  # recorders do not show new_group
        evidence=hang(
            (*rank(IN_NEW_GROUP), record([STEP])),
            *[(*rank(), record([STEP, waits(STEP)]))] * 2,
            facts=(SEEN,),
            seconds=None,
        ),
        says="rank 0 waits in new_group while ranks 1-2 wait in backward",
        ranks=(0,),
        where=(
            "rank 0 /job/train.py:88 train_step",
            "rank 1 /job/train.py:61 train_step",
            "rank 2 /job/train.py:61 train_step",
        ),
    ),
)
HEALTHY = (ranks(MADE, MADE),)
