"""How long each rank takes for one and the same work of its own: the additions of a reduction, with nobody to wait for."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from control_group import gathered
from torch import Tensor

ROUNDS = 6
ROUND_SECONDS = 0.1  # a period of the kernel's CPU quota: shorter work may fall between two halts
CPU_ELEMENTS = 1 << 15  # what torch adds in one thread
GPU_ELEMENTS = 1 << 24  # more than a GPU's caches hold, so that launches do not count
FIRST_TIMES = 64


def own_work(device: torch.device, control: dist.ProcessGroup) -> tuple[list[float], list[float]]:
    """The seconds that this rank takes in each round, and for how many of them it had a processor.

    All ranks begin a round together and do as much as the fastest does in ROUND_SECONDS.
    """
    elements = CPU_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
    mine, other = (torch.zeros(elements, device=device) for _ in range(2))
    once = min(_worked(mine, other, FIRST_TIMES)[0] for _ in range(3)) / FIRST_TIMES
    times = max(1, int(ROUND_SECONDS / min(gathered(once, control))))
    rounds = []
    for _ in range(ROUNDS):
        dist.barrier(control)
        rounds.append(_worked(mine, other, times))
    return [seconds for seconds, _ in rounds], [seconds for _, seconds in rounds]


def _worked(mine: Tensor, other: Tensor, times: int) -> tuple[float, float]:
    start, on_cpu = time.perf_counter(), time.thread_time()
    for _ in range(times):
        mine.add_(other)
    if mine.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.thread_time() - on_cpu
