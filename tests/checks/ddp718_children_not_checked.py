"""Training programs with DDP718 children-not-checked, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source

RANKS = """\
import os
import sys
import torch.distributed as dist
from torch.multiprocessing import Process


def work(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = [Process(target=work, args=(rank, 4)) for rank in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""

SICK = (
    Sick(
        evidence=source(train=RANKS),
        says="these processes are ranks, and nothing reads their exit codes: the program ends with 0 when a rank has failed",
        where=("train.py:14 <module>", "train.py:18 <module>"),
    ),
)
HEALTHY = (source(train=RANKS + "    sys.exit(any(each.exitcode for each in ranks))\n"),)
