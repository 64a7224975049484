"""Mistakes behind one more step: a function that is handed on, a generator around a loader, clean-up that nothing calls."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source, training

_Changes = list[tuple[str, str]]
_END = "    dist.destroy_process_group()\n"
_EVERY_BATCH = "        for images, labels in loader:\n            optimizer"


def _cleaned(call: str) -> _Changes:
    """The process group ends in a function, which the end of the program calls or does not."""
    helper = f"def cleanup():\n{_END}\n\n"
    return [("dist.destroy_process_group()", call), ("def main", f"{helper}def main")]


def _drawn_forever(sampler: str) -> _Changes:
    """Batches come from the program's own generator without an end."""
    forever = "def forever(batches):\n    while True:\n        for batch in batches:\n            yield batch\n\n\n"
    return [
        ("batch_size=64, sampler=sampler", f"batch_size=64, {sampler}"),
        ("    best = 0.0\n", "    best = 0.0\n    stream = forever(loader)\n"),
        (
            _EVERY_BATCH,
            "        for _ in range(100):\n            images, labels = next(stream)\n            optimizer",
        ),
        ("def main", f"{forever}def main"),
    ]


def _own_files(end: str) -> _Changes:
    """A generator counts through what the rank has read of its files."""
    batches = (
        "def batches(files, rank):\n"
        "    rows = []\n"
        "    for file in files[rank :: dist.get_world_size()]:\n"
        "        rows += torch.load(file)\n"
        f"    for start in range(0, {end}, 64):\n"
        "        yield rows[start : start + 64]\n\n\n"
    )
    return [
        (_EVERY_BATCH, "        for images, labels in batches(['0.pt', '1.pt'], rank):\n            optimizer"),
        ("def main", f"{batches}def main"),
    ]


_SPLIT = """    order = list(range(len(train_data)))
    random.shuffle(order)
    cut = len(order) // 10
    held = set(order[:cut])
    {rest}
"""
_STREAM = """class Stream(torch.utils.data.IterableDataset):
    def __init__(self, files):
        self.files = mine(files)

    def __iter__(self):
        {loop}
            for start in range(0, 100, 10):
                yield start


def mine(files):
    return files[dist.get_rank() :: dist.get_world_size()]


"""
_GROUP = """class Job:
    def __init__(self):
        self.backend = "nccl"

    def __enter__(self):
        dist.init_process_group(self.backend)
        return self

    def __exit__(self, *error):
        dist.destroy_process_group()


def teacher():
    return {made}


def start():
    with Job():
        teacher()
        main()


"""
_QUIET = """class Quiet:
    def __init__(self, model, every=4):
        self.model = model
        self.every = every

    def block(self):
        return self.model.no_sync() if {test} else contextlib.nullcontext()


"""
_SEEDED = "    torch.manual_seed(0)\n"


def _held_out(rest: str) -> _Changes:
    """A held-out part is told from the others by a test of membership."""
    return [(_SEEDED, f"{_SEEDED}{_SPLIT.format(rest=rest)}"), ("import os\n", "import os\nimport random\n")]


def _streamed(loop: str) -> _Changes:
    """A helper cuts the files of an iterable data set by the rank."""
    loader = "    loader = DataLoader(Stream(['0.pt', '1.pt', '2.pt']), batch_size=64)\n"
    return [
        ("    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n", loader),
        ("def evaluate", f"{_STREAM.format(loop=loop)}def evaluate"),
    ]


def _entered(made: str) -> _Changes:
    """A context manager makes the process group."""
    return [
        ('    dist.init_process_group("nccl")\n', ""),
        ("    main()\n", "    start()\n"),
        ("def evaluate", f"{_GROUP.format(made=made)}def evaluate"),
    ]


def _quiet(test: str) -> _Changes:
    """A helper chooses whether a forward is synchronised."""
    steps = "            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))\n"
    return [
        (
            f"{steps}            loss.backward()\n",
            f"            with quiet.block():\n    {steps}                loss.backward()\n",
        ),
        ("    best = 0.0\n", "    best = 0.0\n    quiet = Quiet(ddp)\n"),
        ("def evaluate", f"{_QUIET.format(test=test)}def evaluate"),
        ("import os\n", "import contextlib\nimport os\n"),
    ]


def _named_by(name: str) -> _Changes:
    """The folder of the run has a number in its name."""
    made = f'    folder = f"run-{{{name}}}"\n    os.makedirs(folder, exist_ok=True)\n'
    return [("    best = 0.0\n", f"    best = 0.0\n{made}"), ("import os\n", "import os\nimport random\n")]


def _averaged(test: str) -> _Changes:
    """An average of the weights is saved."""
    saves = f'        if {test}:\n            torch.save(average.state_dict(), "average.pt")\n        dist.barrier()\n'
    return [
        ("    best = 0.0\n", "    best = 0.0\n    average = copy.deepcopy(ddp.module)\n"),
        ("        dist.barrier()\n    dist", f"{saves}    dist"),
        ("import os\n", "import copy\nimport os\n"),
    ]


def _in_a_table(end: str) -> _Changes:
    """Samplers and loaders are made for each data set of a table."""
    return [
        ("    sampler = DistributedSampler(train_data)\n", "    sets = {'train': train_data, 'val': val_data}\n"),
        (
            "    loader = DataLoader(train_data, batch_size=64, sampler=sampler)\n",
            (
                "    samplers = {part: DistributedSampler(data, shuffle=part == 'train') for part, data in sets.items()}\n"
                "    loaders = {part: DataLoader(data, 64, sampler=samplers[part]) for part, data in sets.items()}\n"
            ),
        ),
        ("in loader:\n            optimizer", "in loaders['train']:\n            optimizer"),
        ("        sampler.set_epoch(epoch)\n", end),
    ]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        (
            "DDP715",
            _held_out("rest = [i for i in order if i not in held]"),
            _held_out("rest = [i for i in order if i in held]"),
        ),
        ("DDP735", _streamed("for file in self.files:"), _streamed("for _ in range(1000):")),
        ("DDP726", _entered("nn.DataParallel(nn.Linear(3, 1))"), _entered("nn.Linear(3, 1)")),
        ("DDP741", _quiet("self.every > 1"), _quiet("self.every > 1 and self.calls % 4")),
        ("DDP759", _named_by("random.randint(0, 99999)"), _named_by("7")),
        ("DDP750", _averaged("epoch % 2 == 0"), _averaged("rank == 0")),
        ("DDP711", _in_a_table(""), _in_a_table("        samplers['train'].set_epoch(epoch)\n")),
        ("DDP724", _cleaned("pass"), _cleaned("cleanup()")),
        ("DDP710", _drawn_forever("shuffle=True"), _drawn_forever("sampler=sampler")),
        ("DDP735", _own_files("len(rows)"), _own_files("6400")),
    ],
    ids=[
        *(
            "membership",
            "files of a stream",
            "group of a context",
            "no_sync of a helper",
            "drawn name",
            "average of weights",
        ),
        *("table of samplers", "clean-up that nothing calls", "loader behind a generator", "length of the own rows"),
    ],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


_SPAWNED = """import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from functools import partial
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(local_rank, world):
    dist.init_process_group("nccl", rank=local_rank, world_size=world)
    torch.cuda.set_device(local_rank)
    DistributedDataParallel(nn.Linear(3, 1).cuda(), device_ids=[local_rank])
    dist.destroy_process_group()


def launch(entry, nodes):
    gpus = torch.cuda.device_count()
    {start}


if __name__ == "__main__":
    launch(work, nodes=2)
"""


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(work, args=(nodes * gpus,), nprocs=gpus)",
        "mp.spawn(partial(work, world=nodes * gpus), nprocs=gpus)",
        "mp.spawn(entry, args=(nodes * gpus,), nprocs=gpus)",
        "for i in range(gpus):\n        mp.Process(target=entry, args=(i, nodes * gpus)).start()",
        "for i in range(gpus):\n        mp.Process(target=work, args=(i,), kwargs={'world': nodes * gpus}).start()",
    ],
)
def test_what_processes_run_is_found_however_it_is_handed_on(start: str) -> None:
    def codes(text: str) -> set[str]:
        return {each.code for each in diagnose(source(train=text)).findings}

    assert "DDP728" in codes(_SPAWNED.format(start=start))
    assert "DDP728" not in codes(_SPAWNED.format(start=start.replace("nodes * gpus", "gpus")))


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings]


_HOOKED = """import lightning as L
import torch
from torch import nn


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 1)

    def {hook}(self):
        if self.global_rank == 0:
            self.encoder.load_state_dict(torch.load("encoder.pt", map_location="cpu"))

    def training_step(self, batch, index):
        return self.encoder(batch).mean()


L.Trainer(strategy="ddp", devices=4).fit(Model())
"""
_PLAYERS = """import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
made = DistributedDataParallel(nn.Linear(3, 3).cuda())
judge = DistributedDataParallel(nn.Linear(3, 1).cuda())
optimizer = torch.optim.Adam({stepped}.parameters())
scaler = torch.amp.GradScaler()
for batch in torch.zeros(10, 4, 3).cuda():
    loss = judge(made.module(batch)).mean()
    scaler.scale(loss).backward()
    {step}
    scaler.update()
dist.destroy_process_group()
"""
_SCALED = "scaler.step(optimizer)"
_HANDLER = """import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events


def training(local_rank):
    model = idist.auto_model(torch.nn.Linear(3, 1))

    def update(engine, batch):
        loss = model(batch).mean()
        loss.backward()
        return loss.item()

    trainer = Engine(update)

    @trainer.on(Events.ITERATION_COMPLETED(every=10))
    def show(engine):
        {shows}

    trainer.run(torch.zeros(10, 4, 3), max_epochs=3)


with idist.Parallel(backend="nccl", nproc_per_node=4) as parallel:
    parallel.run(training)
"""
_BY_NODE = """import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


def loader(data, rank, nodes):
    gpus = torch.cuda.device_count()
    dist.init_process_group("nccl", rank=rank, world_size=nodes * gpus)
    return DistributedSampler(data, {parts}, rank % gpus)


if __name__ == "__main__":
    loader(range(10), dist.get_rank(), 2)
"""


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP743", _HOOKED.format(hook="on_train_start"), _HOOKED.format(hook="setup")),
        ("DDP740", _PLAYERS.format(stepped="made", step=_SCALED), _PLAYERS.format(stepped="judge", step=_SCALED)),
        (
            "DDP740",
            _PLAYERS.format(stepped="made", step="optimizer.step(lambda: loss)"),
            _PLAYERS.format(stepped="judge", step="optimizer.step(lambda: loss)"),
        ),
        (
            "DDP755",
            _HANDLER.format(shows="print(engine.state.iteration)"),
            _HANDLER.format(shows="idist.get_rank() or print(engine.state.iteration)"),
        ),
        ("DDP719", _BY_NODE.format(parts="gpus"), _BY_NODE.format(parts="10")),
    ],
    ids=[
        "load in a hook of Lightning",
        "step of a scaler",
        "closure",
        "handler of Ignite",
        "remainder on several nodes",
    ],
)
def test_a_program_and_its_healthy_twin(code: str, sick: str, healthy: str) -> None:
    assert code in {each.code for each in diagnose(source(train=sick)).findings}
    assert code not in {each.code for each in diagnose(source(train=healthy)).findings}
