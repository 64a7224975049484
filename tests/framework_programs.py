"""Programs whose loop a framework runs, with the body of a hook that a test fills in."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from tests.training_programs import source

_LIGHTNING = """\
import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 8)

    def training_step(self, batch, number):
        return self.net(batch).mean()

    def on_train_epoch_end(self):
        {body}

    {helper}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    L.Trainer(devices=4, strategy="ddp", max_epochs=3).fit(Net(), torch.utils.data.DataLoader(torch.ones(64, 8)))
"""

_TRAINER = """\
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Own({base}):
    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        {body}


def main():
    args = TrainingArguments("out", ddp_backend="nccl")
    dist.init_process_group("nccl")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    trainer = {trainer}(model=model, args=args, train_dataset=torch.ones(64, 8).long())
    trainer.train()
    if {test}:
        print("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def of_lightning(body: str, helper: str = "") -> Evidence:
    """What is read of a LightningModule whose hook at the end of an epoch runs `body`."""
    return source(train=_LIGHTNING.format(body=body, helper=helper))


def of_trainer(
    body: str = "pass",
    *,
    base: str = "TrainerCallback",
    trainer: str = "Trainer",
    test: str = "trainer.is_world_process_zero()",
) -> Evidence:
    """What is read of a program of transformers whose callback runs `body`, and which tests the rank at its end."""
    return source(train=_TRAINER.format(body=body, base=base, trainer=trainer, test=test))
