"""Training steps that stand in several functions, and what partials, defaults and other files hand to them."""

from __future__ import annotations

import json

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.source.training_code import read_texts
from tests.training_programs import training

_Changes = list[tuple[str, str]]
_STEP = """            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
"""
_GROUP = '    dist.init_process_group("nccl")\n'
_RANKS = '    rank = int(os.environ["RANK"])\n    local_rank = int(os.environ["LOCAL_RANK"])\n'
_SAVES = '            torch.save(ddp.module.state_dict(), "last.pt")\n'


def _after_each_step(body: str) -> _Changes:
    """A hook in a list runs behind each step."""
    hooks = (
        f"class Hook:\n    def after_step(self, loss, number):\n        {body}\n\n\n"
        "def call(hooks, loss, number):\n    for hook in hooks:\n        hook.after_step(loss, number)\n\n\n"
    )
    return [("def main", f"{hooks}def main"), (_STEP, f"{_STEP}            call([Hook()], loss, rank)\n")]


def _in_two_functions(forward: str, update: str = "optimizer.step()") -> _Changes:
    """One function makes the forward and the backward, another one the optimizer's step."""
    helpers = (
        "def backward(model, images, labels):\n"
        "    loss = nn.functional.cross_entropy(model(images), labels)\n    loss.backward()\n\n\n"
        f"def update(model, optimizer):\n    {update}\n    optimizer.zero_grad()\n\n\n"
    )
    step = (
        f"            backward({forward}, images.to(device), labels.to(device))\n            update(model, optimizer)\n"
    )
    return [("def main", f"{helpers}def main"), (_STEP, step)]


def _by_a_partial(given: str) -> _Changes:
    """A partial holds the model that the objective calls."""
    helpers = (
        "def objective(model, images, labels):\n    return nn.functional.cross_entropy(model(images), labels)\n\n\n"
    )
    forward = "nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))"
    return [
        ("import os\n", "import functools\nimport os\n"),
        ("def main", f"{helpers}def main"),
        ("    best = 0.0\n", f"    loss_of = functools.partial(objective, {given})\n    best = 0.0\n"),
        (forward, "loss_of(images.to(device), labels.to(device))"),
    ]


def _loaded_by(parameter: str, call: str) -> _Changes:
    """What loads a file is a parameter, with a default that no call replaces."""
    helper = f"def restore(path, model, {parameter}):\n    model.load_state_dict({call})\n\n\n"
    return [
        ("def main", f"{helper}def main"),
        ("    best = 0.0\n", '    restore("first.pt", ddp.module)\n    best = 0.0\n'),
    ]


def _from(environment: str, rank: str) -> _Changes:
    """The environment is the default of a parameter, and names of variables are put together."""
    helper = f"def number(name, environment=os.environ):\n    return int({environment})\n\n\n"
    return [
        ("def main", f"{helper}def main"),
        (_RANKS, f'    rank = number("{rank}")\n    local_rank = int(os.environ["LOCAL_RANK"])\n'),
        (_GROUP, '    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))\n'),
    ]


def _constructed(load: str) -> _Changes:
    """The constructor of a trainer leaves a load to one rank, and its method trains."""
    trainer = (
        "class Trainer:\n    def __init__(self, ddp, rank):\n        self.ddp, self.first = ddp, rank == 0\n"
        f"        self.warm()\n\n    def warm(self):\n{load}"
        '        self.ddp.module.load_state_dict(torch.load("first.pt", map_location="cpu"))\n\n'
        "    def step(self, images, labels, optimizer):\n        optimizer.zero_grad()\n"
        "        nn.functional.cross_entropy(self.ddp(images), labels).backward()\n        optimizer.step()\n\n\n"
    )
    return [
        ("def main", f"{trainer}def main"),
        ("    best = 0.0\n", "    trainer = Trainer(ddp, rank)\n    best = 0.0\n"),
        (_STEP, "            trainer.step(images.to(device), labels.to(device), optimizer)\n"),
    ]


def _own_iterator(cut: str) -> _Changes:
    """An object of the program's own goes over the files of the rank."""
    parts = (
        "class Parts:\n    def __init__(self, files, rank, world):\n"
        f"        self.files = sorted(files){cut}\n\n"
        "    def __iter__(self):\n        for file in self.files:\n"
        "            yield from torch.load(file, map_location='cpu')\n\n\n"
    )
    return [
        ("def main", f"{parts}def main"),
        ("    best = 0.0\n", "    loader = Parts(os.listdir('parts'), rank, dist.get_world_size())\n    best = 0.0\n"),
    ]


def _data_parallel(when: str) -> _Changes:
    """A method wraps a part of the model in DataParallel, and the constructor of its object made the process group."""
    trainer = (
        f"class Trainer:\n    def __init__(self):\n        {when}\n\n"
        "    def probe(self, model):\n        return nn.DataParallel(model)\n\n\n"
    )
    return [
        (_GROUP, "    trainer = Trainer()\n" if "init_process_group" in when else f"{_GROUP}    trainer = Trainer()\n"),
        ("def main", f"{trainer}def main"),
        ("        accuracy = ", "        if epoch % 5 == 0:\n            trainer.probe(model)\n        accuracy = "),
    ]


@pytest.mark.parametrize(
    ("code", "sick", "healthy"),
    [
        ("DDP755", _after_each_step("print(loss.shape)"), _after_each_step("number == 0 and print(loss.shape)")),
        ("DDP757", _after_each_step("self.last = loss.item()"), _after_each_step("self.last = loss.detach()")),
        ("DDP740", _in_two_functions("model"), _in_two_functions("ddp")),
        (
            "DDP740",
            _in_two_functions("model"),
            _in_two_functions("model", "[dist.all_reduce(p.grad) for p in model.parameters()]\n    optimizer.step()"),
        ),
        ("DDP740", _by_a_partial("model"), _by_a_partial("ddp")),
        (
            "DDP751",
            _loaded_by("load=torch.load", "load(path)"),
            _loaded_by("load=torch.load", "load(path, map_location='cpu')"),
        ),
        ("DDP728", _from("environment[name]", "LOCAL_RANK"), _from("environment[name]", "RANK")),
        ("DDP728", _from('os.environ[f"LOCAL_{name}"]', "RANK"), _from('os.environ[f"SLURM_{name}"]', "PROCID")),
        ("DDP743", _constructed("        if not self.first:\n            return\n"), _constructed("")),
        ("DDP735", _own_iterator("[rank::world]"), _own_iterator("")),
        (
            "DDP731",
            [(_STEP, f"            if rank % dist.get_world_size():\n                continue\n{_STEP}")],
            [(_STEP, f"            if epoch % dist.get_world_size():\n                continue\n{_STEP}")],
        ),
        ("DDP726", _data_parallel('dist.init_process_group("nccl")'), _data_parallel("self.probed = 0")),
    ],
    ids=[
        *("print in a hook", "read in a hook", "forward in another function", "gradients averaged by hand"),
        *("partial with a model", "load by a default", "environment as a default", "name that is put together"),
        *("load in a constructor", "own iterator", "rank modulo world size", "process group of a constructor"),
    ],
)
def test_a_mistake_and_its_healthy_twin(code: str, sick: _Changes, healthy: _Changes) -> None:
    assert code in _codes(*sick)
    assert code not in _codes(*healthy)


def test_a_text_that_one_rank_has_is_printed_by_that_rank() -> None:
    shown = "        line = f'{accuracy}' if rank == 0 else ''\n        if line:\n            print(line)\n"
    printed = "        if rank == 0:\n            print(epoch, accuracy)\n"
    assert "DDP755" not in _codes((printed, f"{shown}        if rank == 0:\n            pass\n"))


def test_a_file_matters_that_calls_a_collective_of_another_file() -> None:
    """The meter's own file names nothing of torch.distributed."""
    meter = "import comm\n\n\ndef describe(rows):\n    return f'{len(comm.merge(rows))} rows'\n"
    comm = (
        "import torch.distributed as dist\n\n\ndef merge(rows):\n    parts = [None] * dist.get_world_size()\n"
        "    dist.all_gather_object(parts, rows)\n    return parts\n"
    )
    changes = (
        ("import os\n", "import os\nimport meter\n"),
        (_SAVES, f"{_SAVES}            print(meter.describe([epoch]))\n"),
    )
    assert "DDP730" in [each.code for each in diagnose(training(*changes, meter=meter, comm=comm)).findings]


_PAGE = """# A program in parts

```python
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
```

```python
def setup(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
```

```python
def train(rank, world):
    setup(rank, world)
    if rank == 0:
        dist.barrier()
    dist.destroy_process_group()


torch.multiprocessing.spawn(train, args=(2,), nprocs=2)
```
"""


def test_blocks_of_a_page_that_call_each_other_are_one_program() -> None:
    module = next(each for each in read_texts({"page.md": _PAGE}).modules if each.functions)
    assert [(each.place.function, each.place.line) for each in module.functions[1:]] == [("setup", 10), ("train", 15)]


def test_blocks_that_define_a_name_twice_are_programs_of_their_own() -> None:
    """A page that shows what is wrong and then what is right."""
    assert len(read_texts({"page.md": _PAGE.replace("def train", "def setup")}).modules) == 3


def test_a_function_of_a_module_is_no_function_of_the_notebook() -> None:
    """Processes that spawn starts can import it."""
    library = (
        "import torch.distributed as dist\n\n\n"
        "def worker(rank, world):\n    dist.init_process_group('nccl', rank=rank, world_size=world)\n"
    )
    start = "import torch.multiprocessing as mp\nimport library\n\nmp.spawn(library.worker, args=(2,), nprocs=2)\n"
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": start}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    code = read_texts({"run.ipynb": notebook, "library.py": library})
    assert "DDP725" not in [each.code for each in diagnose(Evidence(job=(code,), launched=False)).findings]


def _codes(*changes: tuple[str, str]) -> list[str]:
    report = diagnose(training(*changes))
    assert not report.crashed
    return [each.code for each in report.findings]
