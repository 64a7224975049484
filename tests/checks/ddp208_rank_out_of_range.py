from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun
from tests.rank_ends import FINE, LOST_PEER, ended, raised

REFUSED = "[enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/context.cc:23] rank < size. 2 vs 2"
BARE = "[enforce fail at gloo/context.cc:23] rank < size. {} vs {}"

SICK = (
    Sick(
        evidence=ranks(torchrun(0, 2), torchrun(2, 2)),
        says="RANK=2 on host-b is not in 0..1 (WORLD_SIZE=2)",
        ranks=(2,),
        hosts=("host-b",),
        measured={"rank": 2, "world_size": 2},
    ),
    Sick(
        evidence=ranks(torchrun(0, 4, local=2), torchrun(1, 4, local=2, local_rank=5), per_host=2),
        says="LOCAL_RANK=5 of rank 1 is not in 0..1 (LOCAL_WORLD_SIZE=2)",
        ranks=(1,),
        hosts=("host-a",),
        measured={"local_rank": 5, "local_world_size": 2},
    ),
    Sick(  # the program sets WORLD_SIZE to 2, and torchrun has started three ranks
        evidence=ended(LOST_PEER, LOST_PEER, raised(REFUSED)),
        says="init_process_group has rank 2 of world size 2: ranks are 0..1",
        ranks=(2,),
        where=("rank 2 /home/me/job/train.py:48 train",),
        measured={"rank": 2, "world_size": 2},
    ),
    Sick(  # gloo's words without the folder of its sources; a world of no rank
        evidence=ended(LOST_PEER, raised(BARE.format(1, 0))),
        says="init_process_group has rank 1 of world size 0: a world size is at least 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"rank": 1, "world_size": 0},
    ),
    Sick(  # the same number in the variables is not a second finding
        evidence=ranks(
            (torchrun(0, 2), LOST_PEER),
            (torchrun(1, 2), LOST_PEER),
            (torchrun(2, 2), raised(REFUSED)),
            (torchrun(3, 2), raised(BARE.format(3, 2))),
        ),
        says="init_process_group has ranks 2-3 of world size 2: ranks are 0..1",
        ranks=(2, 3),
        where=("rank 2 /home/me/job/train.py:48 train", "rank 3 /home/me/job/train.py:48 train"),
        measured={"rank": 2, "world_size": 2},
    ),
    Sick(
        evidence=ranks(*[torchrun(rank, 2) for rank in range(5)], per_host=2),
        says="RANK of ranks 2-4 is not in 0..1 (WORLD_SIZE=2)",
        ranks=(2, 3, 4),
        hosts=("host-b", "host-c"),
        measured={"rank": 2, "world_size": 2},
    ),
)
HEALTHY = (
    ended(FINE, FINE),
    ranks(*[torchrun(rank, 4, local=2) for rank in range(4)], per_host=2),
)
