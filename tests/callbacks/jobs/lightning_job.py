"""A job for Lightning; at the step given on the command line, rank 1 changes a weight."""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from ddpdoctor.callbacks import ReplicasDifferError
from ddpdoctor.callbacks.lightning import VerifySync


class Job(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        if str(self.global_step) == sys.argv[1] and self.global_rank == 1:
            with torch.no_grad():
                self.layer.weight[0, 0] += 1
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_steps=12, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[VerifySync(every=2)],
    )  # fmt: skip
    torch.manual_seed(1)
    try:
        trainer.fit(Job(), DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=2))
    except ReplicasDifferError as error:
        print(f"rank {trainer.global_rank} was told: {error}", flush=True)
        sys.exit(1)
    print("trained to the end", flush=True)
