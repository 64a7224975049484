"""A read on a file system that is gone; healthy: all ranks wait for each other."""

from tests.checks import Sick, at
from tests.hangs import hang, rank, stack

SICK = (
    Sick(
        evidence=hang(
            rank(),
            rank(
                stack(user=(30, "load")),
                state="D",
                system_call="read",
                waits_on="/mnt/nfs/train.bin",
                kernel_function="folio_wait_bit_common",
            ),
            rank(),
        ),
        says="rank 1 in load (train.py:30) is in uninterruptible IO (read of /mnt/nfs/train.bin), in the kernel's "
        "folio_wait_bit_common; ranks 0,2 wait for it in backward for 6.1 s",
        ranks=(1,),
        where=("rank 1 /job/train.py:30 load", *at("/job/train.py:61 train_step", 0, 2)),
        measured={
            "pid": 100,
            "system_call": "read",
            "waits_on": "/mnt/nfs/train.bin",
            "kernel_function": "folio_wait_bit_common",
            "seconds": 6.1,
        },
    ),
    Sick(
        evidence=hang(rank(stack(user=(30, "load")), state="D", system_call="openat"), rank()),
        says="rank 0 in load (train.py:30) is in uninterruptible IO; rank 1 waits for it in backward for 6.1 s",
        ranks=(0,),
        where=("rank 0 /job/train.py:30 load", "rank 1 /job/train.py:61 train_step"),
        measured={"pid": 100, "system_call": "openat", "waits_on": None, "kernel_function": None, "seconds": 6.1},
    ),
)
HEALTHY = (hang(rank(), rank()),)
