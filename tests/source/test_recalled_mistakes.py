"""Mistakes that programs on GitHub make in ways of their own, and the healthy twin of each."""

from __future__ import annotations

import textwrap

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Severity
from tests.training_programs import source, training

_Changes = list[tuple[str, str]]
_DEF = "def main():\n"
_EPOCH = "        ddp.train()\n"
_EVALUATES = "        accuracy = evaluate(ddp, val_loader, device)\n"
_FIRST = "dist.get_rank() == 0"
_FORWARD = "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
_LOADER = "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n"
_MAIN = "    main()\n"
_PRINTS = "            print(epoch, accuracy)\n"
_SAVES = '            torch.save(ddp.module.state_dict(), "last.pt")\n        dist.barrier()\n'
_SAMPLED = "sampler=DistributedSampler(val_data, shuffle=False, drop_last=True)"
_SEED = "    torch.manual_seed(0)\n"
_STEP = "            optimizer.step()\n"
_STEPS = f"{_FORWARD}            loss.backward()\n"
_VALIDATION = f"    val_loader = DataLoader(val_data, batch_size=64, {_SAMPLED})\n"

_CLIPS = (
    "class Clips(torch.utils.data.Dataset):\n"
    "    def __init__(self, files):\n"
    "        self.files = files\n\n"
    "    def __len__(self):\n"
    "        return len(self.files)\n\n"
    "    def __getitem__(self, i):\n"
    "        return torch.load(self.files[i]), i\n\n\n"
)
_CLIP_LOADER = (
    "    files = [f'{{i}}.pt' for i in range(100)]\n"
    "    val_loader = DataLoader(Clips(files[{}]), batch_size=64)\n"
    "    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
)
_QUANTIZED = (
    "class Quantized(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.layer = nn.Linear(8, 8)\n"
    "        {}\n\n"
    "    def forward(self, x):\n"
    "        return self.layer(x)\n\n\n"
)
_BUFFER = "self.register_buffer('codes', torch.zeros(8))"
_CHOICE = "    sampler = None if dist.get_world_size() == 1 else DistributedSampler(train_data)\n"
_LOOKS = f"{_PRINTS}            with torch.no_grad():\n                ddp(images.to(device))\n"
_BATCHES = (
    "    batches = torch.utils.data.BatchSampler(sampler, 64, drop_last=True)\n"
    "    loader = DataLoader(train_data, batch_sampler=batches)\n"
)
_TOLD = ("        sampler.set_epoch(epoch)\n", "        loader.batch_sampler.sampler.set_epoch(epoch)\n")
_HALVES = (
    "    import random\n"
    "{}    rows = [str(i) for i in range(100)]\n"
    "    random.shuffle(rows)\n"
    "    count = len(rows) // 10\n"
    "    test_rows, train_rows = rows[:count], rows[count:]\n"
)
_TRIES = (
    "        try:\n"
    "            accuracy = evaluate(ddp, val_loader, device)\n"
    "        except RuntimeError as error:\n"
    "            {}\n"
    "                dist.barrier()\n"
    "            raise\n"
)
_AVERAGE = (
    "def average(value, device):\n"
    "    total = torch.tensor({}, device=device)\n"
    "    dist.all_reduce(total)\n"
    "    return total\n\n\n"
)
_PAST = _FORWARD.replace("ddp(", "ddp.module(")
_SWITCHED = (
    "            for step in range(4):\n"
    "                ddp.require_backward_grad_sync = step == {}\n"
    "                loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
    "                loss.backward()\n"
)
_LOADS = '    if rank == 0:\n        {}.load_state_dict(torch.load("old.pt", map_location="cpu"))\n    best = 0.0\n'
_SAVES_NET = (
    '    net = DDP(models.resnet18().cuda())\n    if {}:\n        torch.save(net.module.state_dict(), "net.pt")\n'
)
_FILES = (
    "def save(name, ddp):\n"
    "    if dist.get_rank() == 0:\n"
    '        torch.save(ddp.module.state_dict(), f"runs/{name}.pt")\n\n\n'
    "def load(name, ddp):\n"
    '    ddp.module.load_state_dict(torch.load(f"runs/{name}.pt", map_location="cpu"))\n\n\n'
)
_EPISODES = (
    "def play(policy, env, device):\n"
    "    states, done, state = [], False, env.reset()\n"
    "    while not done:\n"
    "        states.append(state)\n"
    "        state, done = env.step({})\n"
    "    return torch.stack(states)\n\n\n"
)
_PLAYS = (
    "            states = play(ddp.module, train_data, device)\n"
    "            for start in range(0, len(states), 8):\n"
    "                optimizer.zero_grad()\n"
    "                ddp(states[start:start + 8]).mean().backward()\n"
    "                optimizer.step()\n"
)


def _part(by: str) -> _Changes:
    return [
        (_DEF, f"{_CLIPS}{_DEF}"),
        (_VALIDATION, _CLIP_LOADER.format(by)),
        (_EVALUATES, f"{_EVALUATES}        plateau.step(accuracy)\n"),
        ("    dist.all_reduce(correct)\n", ""),
    ]


def _quantized(held: str) -> _Changes:
    model = "    model = models.resnet18().to(device)\n"
    norm = "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
    made = "    model = Quantized().to(device)\n"
    return [(_DEF, _QUANTIZED.format(held) + _DEF), (norm, ""), (model, made), (_PRINTS, _LOOKS)]


def _average(value: str) -> _Changes:
    given = "loss.item()" if value == "value" else "ddp.module.fc.weight.grad"
    return [
        (_DEF, _AVERAGE.format(value) + _DEF),
        (_FORWARD, _PAST),
        (_STEP, f"{_STEP}            average({given}, device)\n"),
    ]


def _reloads(name: str) -> _Changes:
    both = f"            pass\n        save(epoch, ddp)\n        load({name}, ddp)\n        dist.barrier()\n"
    return [(_DEF, _FILES + _DEF), (_SAVES, both)]


def _loads(name: str) -> _Changes:
    return [("    best = 0.0\n", _LOADS.format(name))]


def _chooses(shuffle: str) -> _Changes:
    made = f"    loader = DataLoader(train_data, 64, shuffle={shuffle}, sampler=sampler)\n"
    return [("    sampler = DistributedSampler(train_data)\n", _CHOICE), (_LOADER, made)]


def _saves_by_name(name: str) -> _Changes:
    part = ".module" if name == "ddp" else ""
    held = f"        held = {{'net': {name}}}\n        net = held[str(epoch)[:0] + 'net']\n"
    return [(_EPOCH, f'{held}{_EPOCH}        torch.save(net{part}.state_dict(), "all.pt")\n')]


def _plays(action: str) -> _Changes:
    return [
        (_DEF, _EPISODES.format(action) + _DEF),
        (_EPOCH, _EPOCH + textwrap.indent(textwrap.dedent(_PLAYS), " " * 8)),
    ]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP747", _part("rank::4"), _part("::4")),
        ("DDP711", [(_LOADER, _BATCHES), (_TOLD[0], "")], [(_LOADER, _BATCHES), _TOLD]),
        ("DDP730", _quantized(_BUFFER), _quantized("self.codes = 8")),
        ("DDP730", _quantized(_BUFFER), _quantized(f"if torch.cuda.is_available():\n            {_BUFFER}")),
        ("DDP715", [(_SEED, _HALVES.format(""))], [(_SEED, _HALVES.format("    random.seed(0)\n"))]),
        (
            "DDP733",
            [(_EVALUATES, _TRIES.format("if 'memory' in str(error):"))],
            [(_EVALUATES, _TRIES.format("if rank == rank + 1:"))],
        ),
        ("DDP740", _average("value"), _average("value.sum().item()")),
        ("DDP741", [(_STEPS, _SWITCHED.format("4"))], [(_STEPS, _SWITCHED.format("3"))]),
        ("DDP743", _loads("ddp.module.layer4"), _loads("nn.Linear(3, 3)")),
        ("DDP743", _loads("optimizer"), _loads("torch.optim.SGD(nn.Linear(3, 3).parameters(), lr=1.0)")),
        ("DDP750", [(_MAIN, _MAIN + _SAVES_NET.format("True"))], [(_MAIN, _MAIN + _SAVES_NET.format(_FIRST))]),
        ("DDP752", _reloads("epoch"), _reloads("epoch - 1")),
        ("DDP735", _plays("policy(state)"), _plays("0")),
        ("DDP713", _chooses("True"), _chooses("sampler is None")),
        ("DDP750", _saves_by_name("ddp"), _saves_by_name("model")),
    ],
    ids=[
        *(
            "part of a data set",
            "batch sampler",
            "buffer",
            "buffer of some",
            "halves",
            "test in a handler",
            "average of a figure",
        ),
        *("never true", "part of a wrapped model", "optimizer", "main guard", "path of a parameter", "episodes"),
        *("sampler of some", "module by name"),
    ],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings if each.severity is not Severity.INFO]


_SPAWNS = """import os
import random
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import random_split


def worker(rank, parts):
    dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
{worker}

def main():
{parent}    mp.spawn(worker, args=(parts,), nprocs=torch.cuda.device_count())


if __name__ == "__main__":
    main()
"""
_DRAW = "    parts = random_split(range(100), [90, 10])\n"
_OF_TRANSFORMERS = """import time
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments


class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **options):
        if {}:
            control.should_training_stop = True


dist.barrier()
Trainer(args=TrainingArguments("out"), callbacks=[Stop()]).train()
"""
_OF_IGNITE = """import ignite.distributed as idist
from ignite.engine import Engine, Events
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import FakeData


def training(local_rank, config):
    data = FakeData(100)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    trainer = Engine(lambda engine, batch: 0)
{}    trainer.run(loader, max_epochs=10)


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(training, {{}})
"""
_TELLS = "    trainer.add_event_handler(Events.EPOCH_STARTED, lambda engine: sampler.set_epoch(engine.state.epoch))\n"
_OF_DEEPSPEED = """import os
import deepspeed
import torch
import torch.distributed as dist

deepspeed.init_distributed()
torch.cuda.set_device({})
engine, *_ = deepspeed.initialize(model=torch.nn.Linear(3, 3))
"""
_LOADS_ITSELF = """import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self):
        self.rows = torch.zeros(100, 3)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


deepspeed.init_distributed()
rows = Rows()
engine, _, given, _ = deepspeed.initialize(model=torch.nn.Linear(3, 3), {})
loader = DataLoader(rows, batch_size=4, shuffle=True)
for epoch in range(3):
    for batch in loader:
        loss = engine(batch.cuda()).mean()
        engine.backward(loss)
        engine.step()
"""
_GROWS = """import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Pair:
    def __init__(self):
        self.g = DDP(nn.Linear(3, 3))
        self.d = DDP(nn.Linear(3, 3))
        self.extra = None

    def grow(self):
        {}.extra = nn.Linear(3, 3)


dist.init_process_group("gloo")
pair = Pair()
pair.grow()
"""
_OF_ACCELERATE = """import torch
from accelerate import Accelerator

accelerator = Accelerator()
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(100, 3)))
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
for batch in loader:
    loss = {}(batch).mean()
    accelerator.backward(loss)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP715", _SPAWNS.format(parent="    parts = 2\n", worker=_DRAW), _SPAWNS.format(parent=_DRAW, worker="")),
        ("DDP732", _OF_TRANSFORMERS.format("time.time() > 1e9"), _OF_TRANSFORMERS.format("state.global_step > 100")),
        ("DDP711", _OF_IGNITE.format(""), _OF_IGNITE.format(_TELLS)),
        ("DDP720", _OF_DEEPSPEED.format("dist.get_rank()"), _OF_DEEPSPEED.format('int(os.environ["LOCAL_RANK"])')),
        ("DDP740", _OF_ACCELERATE.format("accelerator.unwrap_model(net)"), _OF_ACCELERATE.format("net")),
        ("DDP710", _LOADS_ITSELF.format("config=1"), _LOADS_ITSELF.format("training_data=rows")),
        ("DDP742", _GROWS.format("self.g.module"), _GROWS.format("self")),
    ],
    ids=["spawn", "transformers", "ignite", "deepspeed", "accelerate", "own loader", "one of two"],
)
def test_a_program_and_its_healthy_twin(code: str, sick: str, healthy: str) -> None:
    assert code in {each.code for each in diagnose(source(train=sick)).findings}
    assert code not in {each.code for each in diagnose(source(train=healthy)).findings}
