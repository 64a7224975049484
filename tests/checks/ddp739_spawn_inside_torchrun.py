"""Training programs with DDP739 spawn-inside-torchrun, and healthy ones."""

from dataclasses import replace

from ddpdoctor.evidence import Evidence
from tests.checks import Sick
from tests.launch_files import script
from tests.training_programs import source

HEAD = "#!/bin/bash\nset -e\n"
SPAWNS = """\
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(4,), nprocs=4)
"""


def beside(text: str) -> Evidence:
    """The program that spawns, and a script that starts it."""
    started = script(text)
    return replace(started, job=(*started.job, *source(train=SPAWNS).job))


SICK = (
    Sick(
        evidence=beside(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n"),
        says=(
            "torchrun starts 4 processes of train.py, and each of them spawns ranks of its own: the ranks of "
            "all of them claim the same numbers"
        ),
        where=("train.py:12 <module>", "job.sh:3"),
    ),
)
HEALTHY = (
    beside(f"{HEAD}python train.py\n"),
    beside(f"{HEAD}torchrun --standalone --nproc-per-node 1 train.py\n"),
)
