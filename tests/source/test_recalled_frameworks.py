"""Mistakes in programs of frameworks, which leave to the program what it gets wrong, and the healthy twin of each."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source

_OF_TRANSFORMERS = """import sys
from datasets import load_dataset
from transformers import Trainer, TrainingArguments


class Weighted(Trainer):
    pass


args = TrainingArguments("out", ddp_timeout=600)
rows = load_dataset("json")
{before}trainer = {made}({model}args=args, train_dataset=rows)
trainer.train()
if {test}:
    {then}
trainer.{last}
"""


_MODEL = 'from transformers import AutoModel\nmodel = AutoModel.from_pretrained("gpt2")\n'
_SAVES = 'train()\nmodel.save_pretrained("out")'


def _of_transformers(**parts: str) -> str:
    usual = {"before": "", "made": "Weighted", "test": "not trainer.is_world_process_zero()", "then": "pass"}
    usual["model"] = "model, " if "before" in parts and "model" in parts["before"] else ""
    return _OF_TRANSFORMERS.format(**{**usual, "last": "save_model()", **parts})


_OF_LIGHTNING = """import lightning as L
import torch


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = torch.nn.Linear(3, 1)

    def training_step(self, batch, number):
        loss = self.net(batch).mean()
        if loss.isnan():
            {then}
        self.manual_backward(loss)
        self.optimizers().step()

    def validation_step(self, batch, number):
        self.log("loss", self.net(batch).mean(){how})


L.Trainer(devices=4, strategy="ddp").fit(Lit())
"""
_OF_ACCELERATE = """import os
import time
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from tqdm import tqdm


def main():
    accelerator = Accelerator()
    folder = {folder}
    os.makedirs(folder, exist_ok=True)
    loader = DataLoader(FakeData(100), batch_size=4, shuffle=True)
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    {prepare}
    bar = tqdm(range(1000){bar})
    for epoch in range(3):
        for images, labels in loader:
            loss = net(images).mean()
            accelerator.backward(loss)
            optimizer.step()
            bar.update()
"""


def _of_accelerate(**parts: str) -> str:
    usual = {"folder": '"out"', "bar": ", disable=not accelerator.is_main_process"}
    return _OF_ACCELERATE.format(**{**usual, "prepare": _PREPARES_ALL, **parts})


_PREPARES_ALL = "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)"
_PREPARES_TWO = "net, optimizer = accelerator.prepare(net, optimizer)"
_OF_FABRIC = """import lightning as L
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData


def evaluate(net, loader):
    with torch.no_grad():
        for images, labels in loader:
            loss = net(images).mean()
    return loss


def main(devices=4):
    fabric = L.Fabric(devices=devices, strategy="ddp")
    fabric.launch()
    loader = DataLoader(FakeData(100), batch_size=4, shuffle=True)
    {loader}
    held_out = fabric.setup_dataloaders(DataLoader(FakeData(10), batch_size=4))
    net = torch.nn.Linear(3, 1)
    net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for epoch in range(3):
        for images, labels in loader:
            fabric.backward(net(images).mean())
            optimizer.step()
        loss = evaluate(net, held_out)
        {reduced}
        print(loss)
"""
_GIVES = "loader = fabric.setup_dataloaders(loader)"
_REDUCES = "loss = fabric.all_reduce(loss)"


def _downloads(program: str) -> str:
    """The program with a data set that it downloads; of Fabric before `launch` starts the other ranks."""
    return program.replace("FakeData", "CIFAR10").replace("(100)", '("data", download=True)')


_OF_SUBMITIT = """import submitit
import torch
import torch.distributed as dist


def job():
    env = submitit.JobEnvironment()
    dist.init_process_group("nccl", rank=env.{rank}, world_size=env.num_tasks)
    torch.cuda.set_device(env.{device})


job()
"""


_SAVED_BY_FABRIC = """import lightning as L


def main():
    fabric = L.Fabric(devices=2, strategy="ddp")
    fabric.launch()
    for step in range(9):
        with fabric.no_backward_sync(net, enabled=step % 2 == 0):
            fabric.backward(net(step))
        {save}


main()
"""

_SAVED_BY_A_CALLBACK = """from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback


class Export(Callback):
    def on_train_epoch_end(self, trainer, module):
        {save}


Trainer(devices=2, callbacks=[Export()]).fit(model)
"""


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP731", _of_transformers(then="sys.exit(0)", last="evaluate()"), _of_transformers(last="evaluate()")),
        (
            "DDP730",
            _of_transformers(test="trainer.is_world_process_zero()", made="Trainer", then="trainer.evaluate()"),
            _of_transformers(test="trainer.is_world_process_zero()", made="Trainer", then="trainer.save_model()"),
        ),
        (
            "DDP716",
            _of_transformers(before='rows.save_to_disk("rows")\n'),
            _of_transformers(before='if args.process_index == 0:\n    rows.save_to_disk("rows")\n'),
        ),
        ("DDP750", _of_transformers(before=_MODEL, last=_SAVES), _of_transformers(before=_MODEL)),
        (
            "DDP732",
            _OF_LIGHTNING.format(then="return", how=", sync_dist=True"),
            _OF_LIGHTNING.format(then="loss = loss * 0", how=", sync_dist=True"),
        ),
        (
            "DDP753",
            _OF_LIGHTNING.format(then="pass", how=""),
            _OF_LIGHTNING.format(then="pass", how=", sync_dist=True"),
        ),
        ("DDP710", _of_accelerate(prepare=_PREPARES_TWO), _of_accelerate()),
        ("DDP755", _of_accelerate(bar=""), _of_accelerate()),
        ("DDP759", _of_accelerate(folder='f"out/{time.time()}"'), _of_accelerate()),
        (
            "DDP710",
            _OF_FABRIC.format(loader="", reduced=_REDUCES),
            _OF_FABRIC.format(loader=_GIVES, reduced=_REDUCES),
        ),
        (
            "DDP753",
            _OF_FABRIC.format(loader=_GIVES, reduced=""),
            _OF_FABRIC.format(loader=_GIVES, reduced=_REDUCES),
        ),
        (
            "DDP716",
            _downloads(_of_accelerate()),
            _downloads(_OF_FABRIC.format(loader=_GIVES, reduced=_REDUCES)),
        ),
        (
            "DDP728",
            _OF_SUBMITIT.format(rank="local_rank", device="local_rank"),
            _OF_SUBMITIT.format(rank="global_rank", device="local_rank"),
        ),
        (
            "DDP720",
            _OF_SUBMITIT.format(rank="global_rank", device="global_rank"),
            _OF_SUBMITIT.format(rank="global_rank", device="local_rank"),
        ),
        *(
            ("DDP730", program.format(save=f"if {who}.is_global_zero: {call}"), program.format(save=call))
            for program, who, call in [
                (_SAVED_BY_FABRIC, "fabric", 'fabric.save("last.ckpt", {})'),
                (_SAVED_BY_A_CALLBACK, "trainer", 'trainer.save_checkpoint("last.ckpt")'),
            ]
        ),
    ],
    ids=[
        *(
            "exit before evaluate",
            "evaluate on one rank",
            "rows saved by all",
            "model saved by all",
            "step by hand",
            "log without sync_dist",
        ),
        *("loader not prepared", "bar of all ranks", "folder by the clock", "loader not set up", "metric under Fabric"),
        "download",
        *("rank of submitit", "device of submitit"),
        *("saved by one rank of Fabric", "saved by one rank in a callback"),
    ],
)
def test_a_program_and_its_healthy_twin(code: str, sick: str, healthy: str) -> None:
    assert code in {each.code for each in diagnose(source(train=sick)).findings}
    assert code not in {each.code for each in diagnose(source(train=healthy)).findings}
