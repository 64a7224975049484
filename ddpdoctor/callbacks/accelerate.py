"""For Accelerate, which has no callbacks: call one of these after each `optimizer.step()`."""

from __future__ import annotations

import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.optim import Optimizer

from ddpdoctor.callbacks import check_replicas


class VerifySync:
    """Compares the replicas after every `every` optimizer steps; where they differ, ends training, or only logs it.

    verify = VerifySync(accelerator, every=500)
    ...
        optimizer.step()
        verify(model, optimizer)
    """

    def __init__(self, accelerator: Accelerator, every: int = 500, *, stop: bool = True) -> None:
        self.accelerator, self.every, self.stop = accelerator, every, stop
        self._steps = 0

    def __call__(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Compare, where it is time to; every rank calls this after every step."""
        if not self.accelerator.sync_gradients:  # a batch that is accumulated: no step was made
            return
        self._steps += 1
        if dist.is_initialized() and self._steps % self.every == 0:
            inner = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps it
            check_replicas(self.accelerator.unwrap_model(model), [inner], self._steps, stop=self.stop)
