"""A DDP job of which one rank goes wrong in its sixth step: `torchrun ... faulty_job.py FAULT CULPRIT`, or as tasks of srun.

The line that is to be named ends with the name of its fault as a comment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 8


def calls_alone() -> None:
    dist.broadcast(torch.zeros(1), 0)  # calls-alone


def sleeps() -> None:
    time.sleep(600)  # sleeps


def stops() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # stops


def raises() -> None:
    raise KeyError("the shard of this rank")  # raises


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def takes_its_node_along() -> None:
    """SIGKILL for everything on the network namespace of this rank, as when a host loses its power."""
    here = Path("/proc/self/ns/net").readlink()
    everything = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for pid in sorted((pid for pid in everything if _namespace(pid) == here), key=os.getpid().__eq__):
        os.kill(pid, signal.SIGKILL)


def _namespace(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


FAULTS = {
    "calls-alone": calls_alone,
    "sleeps": sleeps,
    "stops": stops,
    "raises": raises,
    "is-killed": is_killed,
    "takes-its-node-along": takes_its_node_along,
    "nothing": lambda: None,
}


def line_of(fault: str) -> int:
    """The line that a report must name."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {fault}"))


def main(fault: str, culprit: int) -> None:
    if "RANK" not in os.environ:  # a task of srun
        os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        if step == 5 and dist.get_rank() == culprit:
            FAULTS[fault]()
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
