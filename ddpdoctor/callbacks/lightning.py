"""For Lightning: `Trainer(callbacks=[VerifySync(every=500)])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ddpdoctor.callbacks import check_replicas


class VerifySync(Callback):
    """Compares the replicas after every `every` optimizer steps; where they differ, ends training, or only logs it."""

    def __init__(self, every: int = 500, *, stop: bool = True) -> None:
        self.every, self.stop = every, stop
        self._compared = 0

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any, **__: Any) -> None:  # noqa: ANN401
        """Compare, where it is time to; Lightning calls this after every batch on every rank."""
        step = trainer.global_step
        if trainer.world_size > 1 and step >= self._compared + self.every:  # an accumulated batch makes no step
            self._compared = step
            check_replicas(pl_module, trainer.optimizers, step, stop=self.stop)
