"""Values that each rank has for itself, and the calls that only some ranks make because of them."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source

PROGRAM = """\
import os
import queue
import random
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def share(values):
    dist.all_reduce(values)
    return values


def any_rank(flag):
    flag = torch.tensor(float(flag), device="cuda")
    dist.all_reduce(flag)
    return flag.item() > 0


def has_nan(values):
    return any(each != each for each in values.tolist())


def main(batches):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    {before}
    waiting = queue.Queue()
    started = time.time()
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for number, batch in enumerate(batches):
        output = model(batch.cuda())
        loss = output.mean()
        {first}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {last}
    dist.destroy_process_group()


if __name__ == "__main__":
    from data import batches

    main(batches)
"""
PLAIN = "pass"


def codes(*, before: str = PLAIN, first: str = PLAIN, last: str = PLAIN) -> list[str]:
    program = PROGRAM.format(
        before=before, first=first.replace("\n", "\n        "), last=last.replace("\n", "\n        ")
    )
    found = diagnose(source(train=program), select=("DDP730", "DDP731", "DDP732")).findings
    return [finding.code for finding in found]


@pytest.mark.parametrize(
    "test",
    [
        "torch.isnan(loss)",
        "torch.isnan(loss).item()",
        "has_nan(torch.isnan(output))",
        "int(torch.isnan(output).any())",
        "max(output.tolist()[0]) > 1e3",
        "batch.abs().max() == 0",
        "len([each for each in output.tolist() if each[0] > 1])",
        "len(output[output > 0]) > 4",
        "time.time() - started > 60",
        "waiting.qsize() < 4",
        "random.random() < 0.1",
    ],
)
@pytest.mark.parametrize("call", ["dist.barrier()", "share(loss.detach())"])
def test_a_collective_by_a_value_of_this_rank_is_named(test: str, call: str) -> None:
    assert codes(last=f"if {test}:\n    {call}") == ["DDP730"]


@pytest.mark.parametrize(
    "test",
    [
        "any_rank(torch.isnan(loss).item())",
        "share(loss.detach()).item() > 5",
        "number % 10 == 0",
        "len(batch) < 8",
        "batch.shape[0] < 8",
        "len(losses) > 4",
        "os.path.exists('checkpoints/last.pt')",
        "losses",
        "not started",
        "timing['step'] > 100",
        "'step' in timing",
        "'aux' in output",
        "loss.grad_fn is not None",
        "output.dim() > 1",
        "batch.size(0) < 8",
        "len([each for each in output if each.startswith('image')]) > 1",
        "os.environ.get('PROFILE')",
    ],
)
@pytest.mark.parametrize("call", ["dist.barrier()", "share(loss.detach())"])
def test_a_collective_by_what_all_ranks_have_alike_is_healthy(test: str, call: str) -> None:
    timing = "timing = {'start': time.time(), 'step': 0}"
    assert codes(before=timing, last=f"losses.append(loss.item())\nif {test}:\n    {call}") == []


def test_both_ways_of_a_test_that_make_the_collective_are_healthy() -> None:
    assert codes(last="if loss > 1:\n    share(loss.detach())\nelse:\n    share(loss.detach() * 0)") == []


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        ("pass", ["DDP730"]),
        ("random.seed(dist.get_rank())", ["DDP730"]),
        ("random.seed(0)", []),
        ("set_determinism(0)", []),
        ("random.setstate(saved)", []),
        ("random.seed(int(os.environ['SEED']))", []),
    ],
)
def test_a_draw_is_of_one_rank_where_no_seed_makes_it_alike(seed: str, found: list[str]) -> None:
    assert codes(before=seed, last="if random.random() < 0.1:\n    dist.barrier()") == found


def test_a_batch_of_an_unknown_loader_that_trains_the_wrapper_is_of_one_rank() -> None:
    assert codes(first="if batch.abs().max() == 0:\n    continue") == ["DDP732"]


def test_an_item_that_trains_nothing_may_be_alike_on_all_ranks() -> None:
    assert (
        codes(
            before="for name in os.environ['STAGES'].split():\n        if name == 'wait':\n            dist.barrier()"
        )
        == []
    )


@pytest.mark.parametrize(
    "loop",
    [
        "for stage in os.environ['STAGES'].split():\n    if stage == 'wait':\n        dist.barrier()\n    model(batch, stage)",
        "for scale in scales():\n    if scale > 2:\n        dist.barrier()\n    model(batch * scale).sum().backward()",
        "for name in names():\n    try: lr = float(name)\n    except ValueError: continue\n    model(batch).sum().backward()",
    ],
    ids=["stages", "scales", "names"],
)
def test_what_configuration_gives_is_alike_on_all_ranks(loop: str) -> None:
    assert codes(last=loop) == []


def test_a_handler_that_skips_the_step_of_a_batch_is_named() -> None:
    skips = "try:\n    model(batch).sum().backward()\nexcept ValueError:\n    continue"
    assert codes(first=skips) == ["DDP732"]
    assert codes(first=skips.replace("continue", "raise")) == []


MORE = """\
import functools
import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def together(function):
    @functools.wraps(function)
    def inner(*args):
        dist.barrier()
        return function(*args)
    return inner


@together
def report(model):
    print(model)


def reducer(name):
    def reduce(value):
        dist.all_reduce(value)
        print(name, value)
    return reduce


def context():
    found = dict(rank=int(os.environ["RANK"]), local=int(os.environ["LOCAL_RANK"]))
    found["name"] = "run"
    return found


@dataclass
class World:
    rank: int = field(default_factory=lambda: int(os.environ["RANK"]))


class Base:
    def __init__(self):
        self.model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self, batches):
        for batch in batches:
            self.step(batch)

    def step(self, batch):
        raise NotImplementedError


class Plain(Base):
    def step(self, batch):
        loss = self.model(batch).mean()
        {in_step}
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(batches):
    dist.init_process_group("nccl")
    known, world, log = context(), World(), reducer("loss")
    torch.cuda.set_device(known["local"])
    Plain().run(batches)
    if {test}:
        {call}
    dist.destroy_process_group()


if __name__ == "__main__":
    from data import batches

    main(batches)
"""


def in_a_class(*, test: str = "known", call: str = "pass", in_step: str = "pass") -> list[str]:
    program = MORE.format(test=test, call=call, in_step=in_step)
    return [finding.code for finding in diagnose(source(train=program), select=("DDP73",)).findings]


@pytest.mark.parametrize("test", ["known['rank'] == 0", "world.rank == 0"])
@pytest.mark.parametrize("call", ["report(1)", "log(torch.ones(1))", "dist.barrier()"])
def test_decorators_closures_dicts_and_fields_of_dataclasses_are_followed(test: str, call: str) -> None:
    assert in_a_class(test=test, call=call) == ["DDP730"]
    assert in_a_class(test="known['name'] == 'run'", call=call) == []


def test_a_method_that_a_base_class_calls_is_known_to_stand_in_its_loop() -> None:
    assert in_a_class(in_step="if not torch.isfinite(loss): return") == ["DDP732"]
    assert in_a_class(in_step="if not torch.isfinite(loss): loss = loss * 0") == []


def test_two_collectives_under_the_same_test_of_the_rank_do_not_answer_each_other() -> None:
    call = "dist.barrier()\n    if world.rank == 0:\n        dist.barrier()"
    assert in_a_class(test="world.rank == 0", call=call) == ["DDP730", "DDP730"]
    answered = "dist.barrier()\n    if world.rank != 0:\n        dist.barrier()"
    assert in_a_class(test="world.rank == 0", call=answered) == []


def test_a_trainer_of_a_framework_that_the_program_extends_makes_it_distributed() -> None:
    program = (
        "import torch.distributed as dist\nfrom transformers import Trainer\n\n\nclass Mine(Trainer):\n"
        "    def log_all(self, args):\n        if args.local_rank == 0:\n            dist.barrier()\n\n\n"
        "Mine().train()\n"
    )
    assert [each.code for each in diagnose(source(train=program), select=("DDP730",)).findings] == ["DDP730"]


def test_a_counter_of_epochs_is_no_constant() -> None:
    program = """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main(data, model):
    dist.init_process_group("gloo")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    model, epoch, steps = DistributedDataParallel(model), 0, 0
    while steps < 1000:
        sampler.set_epoch(epoch)
        for batch in loader:
            model(batch).backward()
            steps += 1
        {count}
    dist.destroy_process_group()


main(None, None)
"""
    assert [
        each.code for each in diagnose(source(train=program.format(count="epoch += 1")), select=("DDP712",)).findings
    ] == []
    found = diagnose(source(train=program.format(count="pass")), select=("DDP712",)).findings
    assert [each.code for each in found] == ["DDP712"]


def test_a_random_number_is_named_as_such_with_what_makes_it_alike() -> None:
    program = PROGRAM.format(before=PLAIN, first=PLAIN, last="if random.random() < 0.1:\n            dist.barrier()")
    (finding,) = diagnose(source(train=program), select=("DDP730",)).findings
    assert "decides by its own random number" in finding.message
    assert "draw on rank 0 and broadcast the number" in finding.remedy
