"""A job for the Hugging Face Trainer; at the step given on the command line, rank 1 changes a weight."""

import sys
import tempfile

import torch
from transformers import Trainer, TrainingArguments

from ddpdoctor.callbacks import ReplicasDifferError
from ddpdoctor.callbacks.transformers import VerifySync


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.steps = 0

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if str(self.steps) == sys.argv[1] and torch.distributed.get_rank() == 1:
            with torch.no_grad():
                self.layer.weight[0, 0] += 1
        self.steps += 1
        scores = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


torch.manual_seed(1)
data = [{"x": torch.randn(4), "labels": index % 2} for index in range(48)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, per_device_train_batch_size=2, num_train_epochs=1, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=[VerifySync(every=2)])
    try:
        trainer.train()
    except ReplicasDifferError as error:
        print(f"rank {torch.distributed.get_rank()} was told: {error}", flush=True)
        sys.exit(1)
    print("trained to the end", flush=True)
