"""Stopped by a signal, and held by a tracer; healthy: all ranks wait for each other."""

from tests.checks import Sick, at
from tests.hangs import IN_BACKWARD, hang, rank, stack

SICK = (
    Sick(
        evidence=hang(rank(), rank(), rank(), rank(stack(), pid=4711, state="T")),
        says="rank 3 in train_step (train.py:61) is stopped by a signal such as SIGSTOP (process 4711, state T); "
        "ranks 0-2 wait for it in backward for 6.1 s",
        ranks=(3,),
        where=at("/job/train.py:61 train_step", 3, 0, 1, 2),
        measured={"pid": 4711, "state": "T", "seconds": 6.1},
    ),
    Sick(
        evidence=hang(rank(IN_BACKWARD, pid=4711, state="t"), rank(), seconds=None),
        says="rank 0 in train_step (train.py:61) is stopped by a tracer such as gdb (process 4711, state t); "
        "rank 1 waits for it in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:61 train_step", "rank 1 /job/train.py:61 train_step"),
        measured={"pid": 4711, "state": "t", "seconds": None},
    ),
)
HEALTHY = (hang(rank(), rank()),)
