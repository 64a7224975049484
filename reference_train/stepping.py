"""One optimizer step: accumulation, mixed precision, clipping, and a loss whose average over ranks is the right one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from phases import Phases
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.nn.parallel import DistributedDataParallel

AMP = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    """Makes optimizer steps."""

    model: DistributedDataParallel
    """The model under DDP."""
    optimizer: torch.optim.Optimizer
    """Over the parameters of `model`."""
    schedule: torch.optim.lr_scheduler.LRScheduler
    """Sets the learning rate; it moves on after every optimizer step."""
    scaler: torch.amp.GradScaler
    """The loss scaler, enabled for `amp="fp16"` only."""
    device: torch.device
    """Where the model and the batches are."""
    amp: str
    """The dtype of autocast: `bf16`, `fp16`, or `none`."""
    accumulate: int
    """Backward passes per step; gradients are reduced in the last one."""
    clip_grad: float | None
    """The most that the norm of all gradients may be; None to leave it."""
    phases: Phases
    """Measures the seconds of forward, backward and optimizer."""
    mistake: str | None = None
    """One of `recipe_options.MISTAKES` that makes the steps wrong on purpose; None for right ones."""

    def step(self, images: Tensor, labels: Tensor, everyone: int) -> Tensor:
        """The sum of this rank's losses, after one step over its images; `everyone` counts the samples of all ranks."""
        self.clear()
        total = self.backward(images, labels, everyone)
        self.update()
        return total

    def clear(self) -> None:
        """Forget the gradients of the last step."""
        if self.mistake != "zero-grad-missing":
            self.optimizer.zero_grad()

    def update(self) -> None:
        """Clip the gradients, move the weights along them, and go on in the schedule."""
        with self.phases("optimizer"):
            if self.clip_grad is not None:
                self.scaler.unscale_(self.optimizer)  # the norm of scaled gradients means nothing
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_grad)
            self.scaler.step(self.optimizer)  # leaves the step out, on all ranks, where a gradient is not finite
            self.scaler.update()
            self.schedule.step()

    def backward(self, images: Tensor, labels: Tensor, everyone: int) -> Tensor:
        """The sum of this rank's losses, once all gradients are those of the mean over everyone's samples."""
        total = torch.zeros((), device=self.device, dtype=torch.float64)
        pieces = min(self.accumulate, max(1, len(images)))
        # tensor_split gives as many pieces as asked for; chunk may give fewer, and the last one would never be reduced.
        parts = zip(images.tensor_split(pieces), labels.tensor_split(pieces), strict=True)
        for piece, (part, wanted) in enumerate(parts):
            # no_sync holds for the forward *and* the backward: DDP decides in the forward whether it will reduce.
            with nullcontext() if piece == pieces - 1 else self.model.no_sync():
                with self.phases("forward"):
                    losses = self._losses(part, wanted)
                with self.phases("backward"):
                    self.scaler.scale(losses.sum() * self._weight(len(labels), everyone)).backward()
            total += losses.detach().sum()
        return total

    def _losses(self, images: Tensor, labels: Tensor) -> Tensor:
        forward: Callable[[Tensor], Any] = self.model.module if self.mistake == "wrapper-bypassed" else self.model
        with torch.autocast(self.device.type, AMP[self.amp]) if self.amp in AMP else nullcontext():
            return F.cross_entropy(forward(images), labels, reduction="none")

    def _weight(self, mine: int, everyone: int) -> float:
        """What turns the sum of this rank's losses into a loss whose average over the ranks is the mean over all samples.

        DDP divides by the number of ranks. A plain mean over the rank's own samples is right only where all ranks have
        equally many.
        """
        world_size = dist.get_world_size()
        match self.mistake:
            case "loss-summed":
                return 1.0
            case "divided-twice":
                return 1 / everyone
            case "uneven-batches":
                return 1 / max(1, mine)
            case _:
                return world_size / everyone
