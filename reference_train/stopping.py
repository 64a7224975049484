"""Ending early, all ranks together: on SIGTERM, or on the signal with which Slurm warns (`--signal=USR1@60`)."""

from __future__ import annotations

import signal
from types import FrameType

import torch
import torch.distributed as dist

EVERY_STEPS = 8  # how often the ranks ask each other: an all-reduce of one number


class Stopping:
    """Listens for the signals; a rank never stops alone, since the others would wait for it in their next collective."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._hear)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def together(self, step: int, device: torch.device) -> bool:
        """Whether any rank was asked to stop. All ranks call this at the same step; it answers every eighth step."""
        if step % EVERY_STEPS:
            return False
        asked = torch.tensor([float(self._asked)], device=device)
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        return bool(asked.item())
