"""Factories, registries, passed-on arguments and hooks: what each caller gets of them, in programs of several modules."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.model import Severity
from ddpdoctor.source.program.calling_contexts import MOST_CONTEXTS
from ddpdoctor.source.training_code import read_texts
from tests.training_programs import source

TRAIN = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from data import build_loader
from images import Images, Net


def main():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    train_loader = build_loader(Images("train"), True)
    val_loader = build_loader(Images("val"), False)
    model = DistributedDataParallel(Net().cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(10):
        {first}
        for x, y in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in val_loader:
                model(x.cuda())
        model.train()
    dist.destroy_process_group()


main()
"""
SHARDED = """\
from torch.utils.data import DataLoader, DistributedSampler


def build_loader(dataset, train):
    sampler = DistributedSampler(dataset, shuffle=train)
    return DataLoader(dataset, 32, sampler=sampler, drop_last=train)
"""
BY_BRANCHES = """\
from torch.utils.data import DataLoader, DistributedSampler


def build_loader(dataset, train):
    if train:
        return DataLoader(dataset, 32, {of_train})
    return DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
"""


def codes(**modules: str) -> list[str]:
    return [
        finding.code
        for finding in diagnose(source(**modules), select=("DDP7",)).findings
        if finding.severity is not Severity.INFO
    ]


def test_each_caller_of_a_factory_gets_a_loader_of_its_own() -> None:
    assert codes(train=TRAIN.format(first="pass"), data=SHARDED) == ["DDP711"]
    assert codes(train=TRAIN.format(first="train_loader.sampler.set_epoch(epoch)"), data=SHARDED) == []


def test_what_a_factory_gives_is_decided_by_the_literals_of_the_call() -> None:
    sick = BY_BRANCHES.format(of_train="shuffle=True")
    healthy = BY_BRANCHES.format(of_train="sampler=DistributedSampler(dataset)")
    assert codes(train=TRAIN.format(first="pass"), data=sick) == ["DDP710"]
    assert codes(train=TRAIN.format(first="train_loader.sampler.set_epoch(epoch)"), data=healthy) == []


def test_a_loader_of_a_factory_is_shown_with_the_call_that_it_was_made_for() -> None:
    modules = source(train=TRAIN.format(first="pass"), data=BY_BRANCHES.format(of_train="shuffle=True"))
    (finding,) = diagnose(modules, select=("DDP710",)).findings

    assert [(place.file, place.line) for place in finding.where] == [("data.py", 6), ("train.py", 21), ("train.py", 13)]


REGISTRY = """\
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

SAMPLERS = {{}}


def register(name):
    def enter(function):
        SAMPLERS[name] = function
        return function
    return enter


@register("shuffled")
def shuffled(dataset):
    return {shuffled}(dataset)


@register("plain")
def plain(dataset):
    return SequentialSampler(dataset)


def build_loader(dataset, train):
    name = "shuffled" if train else "plain"
    return DataLoader(dataset, 32, sampler=SAMPLERS[name](dataset), drop_last=train)
"""


def test_what_a_decorator_registers_is_found_by_its_name() -> None:
    told = TRAIN.format(first="train_loader.sampler.set_epoch(epoch)")
    assert codes(train=told, data=REGISTRY.format(shuffled="RandomSampler")) == ["DDP710"]
    assert codes(train=told, data=REGISTRY.format(shuffled="DistributedSampler")) == []


PASSED_ON = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from images import Images, Net


def wrap(model, *devices):
    return DistributedDataParallel(model, device_ids=list(devices))


def sampler_for(dataset, **options):
    return DistributedSampler(dataset, **options)


rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
model = wrap(Net().cuda(), {device})
sampler = sampler_for(Images(), num_replicas=dist.get_world_size(), rank={rank})
dist.destroy_process_group()
"""


def test_arguments_are_followed_through_stars() -> None:
    assert codes(train=PASSED_ON.format(device="rank", rank="local")) == ["DDP719", "DDP720"]
    assert codes(train=PASSED_ON.format(device="local", rank="rank")) == []


STATE = """\
import os
import torch
import torch.distributed as dist

_state = {}


def boot():
    _state["rank"], _state["local"] = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(index("WHICH"))
    dist.init_process_group("nccl")


def index(kind):
    return _state[kind]


boot()
if index("rank") == 0:
    torch.save(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)).state_dict(), "w.pt")
dist.destroy_process_group()
"""


def test_a_dict_of_a_module_holds_what_its_functions_put_there() -> None:
    assert codes(train=STATE.replace("WHICH", "rank")) == ["DDP720"]
    assert codes(train=STATE.replace("WHICH", "local")) == []


HOOK = """\
import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import Runner


class Keep(Hook):
    def after_run(self, runner):
        {test}torch.save(runner.model.state_dict(), "last.pth")


Runner(custom_hooks=[Keep()], launcher="pytorch").train()
"""


def test_a_hook_of_a_framework_runs_on_every_rank() -> None:
    assert codes(train=HOOK.format(test="")) == ["DDP750"]
    assert codes(train=HOOK.format(test="if is_main_process(): ")) == []


@pytest.mark.parametrize("calls", ["chain", "tree"])
def test_factories_within_factories_stay_cheap(calls: str) -> None:
    """Each of 200 factories is called twice by the next: only a few calls of each are looked at on their own."""
    inner = "make{}(x, True) if x else make{}(x, False)" if calls == "tree" else "make{}(x, flag)"
    functions = "".join(
        f"def make{n}(x, flag):\n    if flag:\n        return {inner.format(n - 1, n - 1)}\n    return make{n - 1}(flag, x)\n\n"
        for n in range(1, 200)
    )
    text = (
        "import torch.distributed as dist\n\n\ndef make0(x, flag):\n    return x\n\n"
        f"{functions}\ndist.init_process_group('gloo')\nif make199(dist.get_rank(), True):\n    dist.barrier()\n"
    )
    (module,) = read_texts({"train.py": text}).modules
    assert len(module.functions) <= 200 * MOST_CONTEXTS


def test_the_tests_of_a_program_do_not_hide_its_own_calls() -> None:
    """They call a factory more often than is looked at, in a file that imports it from the program."""
    data = BY_BRANCHES.format(of_train="shuffle=True").split("\n\n\n")
    program = TRAIN.format(first="pass").replace("\nmain()\n", '\nif __name__ == "__main__":\n    main()\n')
    program = program.replace("from data import build_loader", data[0]).replace("def main", f"{data[1]}\n\ndef main")
    calls = "".join(
        f"\n\ndef test_{n}():\n    build_loader(Images('a'), {n % 2 == 0})\n" for n in range(MOST_CONTEXTS + 1)
    )
    assert codes(train=program) == ["DDP710"]
    tests = f"from train import build_loader\nfrom images import Images\n{calls}"
    assert codes(train=program, test_train=tests) == ["DDP710"]


RING = """\
def build_loader(dataset, train, again=False):
    if again:
        return other(dataset, train)
    return DataLoader(dataset, 32, sampler=DistributedSampler(dataset))


def other(dataset, train):
    return build_loader(dataset, train)
"""


def test_functions_that_call_each_other_are_read_once_for_all_callers() -> None:
    """Whichever of them stands, and is asked for, first."""
    head = "from torch.utils.data import DataLoader, DistributedSampler\n\n\n"
    first, second = RING.split("\n\n\n")
    main = TRAIN.format(first="pass")
    made = []
    for text in (f"{first}\n\n\n{second}", f"{second}\n\n\n{first}"):
        texts = {"train.py": main.replace("True)", "True, again=True)"), "data.py": f"{head}{text}"}
        (read,) = [module for module in read_texts(texts).modules if module.file == "data.py"]
        made.append(sorted(function.id.rpartition("::")[2] for function in read.functions))
    assert made[0] == made[1]
    assert not any("@" in name for name in made[0])


@pytest.mark.parametrize("folder", ["runs", "runs@7"])
def test_the_path_of_a_file_may_hold_an_at_sign(folder: str) -> None:
    told = TRAIN.format(first="train_loader.sampler.set_epoch(epoch)")
    modules = read_texts({f"{folder}/train.py": told, f"{folder}/data.py": SHARDED}).modules
    calls = [call for module in modules for function in module.functions for call in function.calls]
    (asked,) = [call.receiver for call in calls if call.name.endswith("set_epoch")]
    assert asked is not None
    assert asked.may(Kind.SAMPLER) is not None
