"""Stopped by a signal, and held by a tracer; healthy: all ranks wait for each other."""

from tests.checks import Sick
from tests.standstills import IN_BACKWARD, rank, stack, standstill

SICK = (
    Sick(
        evidence=standstill(rank(), rank(), rank(), rank(stack(), pid=4711, state="T")),
        says="rank 3 in train_step (train.py:61) is stopped by a signal such as SIGSTOP (process 4711, state T); "
        "ranks 0-2 wait for it in backward for 6.1 s",
        ranks=(3,),
    ),
    Sick(
        evidence=standstill(rank(IN_BACKWARD, pid=4711, state="t"), rank(), seconds=None),
        says="rank 0 in train_step (train.py:61) is stopped by a tracer such as gdb (process 4711, state t); "
        "rank 1 waits for it in backward",
        ranks=(0,),
    ),
)
HEALTHY = (standstill(rank(), rank()),)
