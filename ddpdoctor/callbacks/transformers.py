"""For the Hugging Face Trainer: `Trainer(..., callbacks=[VerifySync(every=500)])`."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ddpdoctor.callbacks import check_replicas


class VerifySync(TrainerCallback):
    """Compares the replicas after every `every` optimizer steps; where they differ, ends training, or only logs it."""

    def __init__(self, every: int = 500, *, stop: bool = True) -> None:
        self.every, self.stop = every, stop

    def on_step_end(
        self,
        _args: TrainingArguments,
        state: TrainerState,
        _control: TrainerControl,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        **_: Any,  # noqa: ANN401 - what else the Trainer hands to its callbacks
    ) -> None:
        """Compare, where it is time to; the Trainer calls this after every optimizer step on every rank."""
        if dist.is_initialized() and state.global_step % self.every == 0:
            inner = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps it
            check_replicas(model, [inner], state.global_step, stop=self.stop)
