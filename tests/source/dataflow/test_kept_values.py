"""What an object keeps of the values that its methods were given decides as these values do."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.training_programs import source

PROGRAM = """\
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Returns:
    def __init__(self, patience=2):
        self.best, self.bad, self.patience = float("inf"), 0, patience

    def should_stop(self, loss):
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


class Sets:
    def __init__(self, patience=2):
        self.patience, self.counter, self.best, self.early_stop = patience, 0, None, False

    def __call__(self, loss):
        if self.best is None or loss < self.best:
            self.best = loss
            self.counter = 0
        else:
            self.counter += 1
            if self.counter >= self.patience:
                self.early_stop = True


class Asked:
    def __init__(self, patience=2):
        self.patience, self.history = patience, []

    def step(self, metric):
        self.history.append(metric)

    @property
    def stop(self):
        return min(self.history[-self.patience:]) > min(self.history)


@dataclass
class Counts:
    limit: int = 3
    best: float = float("inf")
    bad: int = 0

    def update(self, loss):
        if loss < self.best:
            self.best = loss
            self.bad = 0
        else:
            self.bad += 1

    def exhausted(self):
        return self.bad >= self.limit


class Reduces(Returns):
    def should_stop(self, loss):
        loss = torch.tensor(loss)
        dist.all_reduce(loss)
        self.bad = 0 if loss < self.best else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


class Calls(Returns):
    def should_stop(self, loss):
        self.bad += 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        total = sum(nn.functional.mse_loss(model.module(x), y).item() for x, y in loader)
    model.train()
    return total / len(loader)


def reduced(value):
    value = torch.tensor(value)
    dist.all_reduce(value)
    return value.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 1))
    data = TensorDataset(torch.randn(480, 8), torch.randn(480, 1))
    sampler = DistributedSampler(data)
    train = DataLoader(data, batch_size=16, sampler=sampler)
    {val}
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    stopper = {stopper}
    other = {stopper}
    for epoch in range(60):
        sampler.set_epoch(epoch)
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        {decide}
    dist.destroy_process_group()


main()
"""
FULL = "val = DataLoader(TensorDataset(torch.randn(60, 8), torch.randn(60, 1)))"
SHARDED = "val = DataLoader(data, sampler=DistributedSampler(data, shuffle=False))"
OWN = {
    "a sampler": SHARDED,
    "the rank in the data": "val = DataLoader(TensorDataset(torch.randn(60, 8) * (rank + 1), torch.randn(60, 1)))",
    "draws behind a seed of the rank": f"torch.manual_seed(10 + rank)\n    {FULL}",
}
KEPT = {
    "Returns()": "if stopper.should_stop({value}):\n            break",
    "Sets()": "stopper({value})\n        if stopper.early_stop:\n            break",
    "Asked()": "stopper.step({value})\n        if stopper.stop:\n            break",
    "Counts()": "stopper.update({value})\n        if stopper.exhausted():\n            break",
}
FROM_OUTSIDE = """\
loss = validate(model, val)
        if loss < stopper.best:
            stopper.best = loss
            stopper.bad = 0
        else:
            stopper.bad += 1
        if stopper.bad > 3:
            break"""


def codes(*, val: str, stopper: str, decide: str) -> list[str]:
    program = PROGRAM.format(val=val, stopper=stopper, decide=decide)
    return [each.code for each in diagnose(source(train=program), select=("DDP732",)).findings]


@pytest.mark.parametrize("stopper", KEPT)
@pytest.mark.parametrize("val", OWN.values(), ids=OWN)
def test_an_object_that_keeps_the_loss_of_one_rank_ends_the_loop(val: str, stopper: str) -> None:
    decide = KEPT[stopper].format(value="validate(model, val)")
    assert codes(val=val, stopper=stopper, decide=decide) == ["DDP732"]


def test_attributes_that_are_assigned_from_outside_count() -> None:
    assert codes(val=SHARDED, stopper="Counts()", decide=FROM_OUTSIDE) == ["DDP732"]
    assert codes(val=FULL, stopper="Counts()", decide=FROM_OUTSIDE) == []


@pytest.mark.parametrize("stopper", KEPT)
@pytest.mark.parametrize(
    ("val", "value"),
    [
        (FULL, "validate(model, val)"),
        (f"torch.manual_seed(10 + rank)\n    torch.manual_seed(3)\n    {FULL}", "validate(model, val)"),
        (SHARDED, "reduced(validate(model, val))"),
        (SHARDED, "epoch"),
    ],
    ids=["all read all", "seeded alike again", "reduced", "a counter"],
)
def test_an_object_that_keeps_what_all_ranks_have_is_healthy(val: str, value: str, stopper: str) -> None:
    assert codes(val=val, stopper=stopper, decide=KEPT[stopper].format(value=value)) == []


@pytest.mark.parametrize("stopper", KEPT)
def test_what_another_object_of_the_class_keeps_does_not_count(stopper: str) -> None:
    its = KEPT[stopper].format(value="validate(model, val)").partition("\n        if ")[0].replace("stopper", "other")
    its = its.removeprefix("if ").partition(":")[0]
    decide = f"{its}\n        {KEPT[stopper].format(value='epoch')}"
    assert codes(val=SHARDED, stopper=stopper, decide=decide) == []


@pytest.mark.parametrize(
    ("stopper", "decide"),
    [
        ("Reduces()", KEPT["Returns()"].format(value="validate(model, val)")),
        ("Calls()", KEPT["Returns()"].format(value="validate(model, val)")),
        (
            "Returns()",
            (
                "stop = torch.tensor(float(stopper.should_stop(validate(model, val))))\n        dist.broadcast(stop, 0)\n"
                "        if stop > 0:\n            break"
            ),
        ),
        (
            "Sets()",
            (
                "stopper(validate(model, val))\n        stop = torch.tensor(float(stopper.early_stop))\n"
                "        dist.all_reduce(stop)\n        if stop > 0:\n            break"
            ),
        ),
    ],
    ids=["reduced inside", "counts its calls", "decision broadcast", "decision reduced"],
)
def test_a_decision_that_all_ranks_share_is_healthy(stopper: str, decide: str) -> None:
    assert codes(val=SHARDED, stopper=stopper, decide=decide) == []


SAMPLED = """\
import torch.distributed as dist
import torchvision
from somewhere import Elastic
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler


class Trainer:
    def __init__(self, config):
        data = torchvision.datasets.CIFAR10("data")
        {sampler}
        self.loader = DataLoader(data, batch_size=16, sampler=self.sampler)
        self.model = DistributedDataParallel(nn.Linear(8, 1))
        self.optimizer = optim.Adam(self.model.parameters())

    def fit(self):
        for epoch in range(60):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()


def main(config):
    dist.init_process_group("gloo")
    Trainer(config).fit()


main(None)
"""


@pytest.mark.parametrize(
    ("sampler", "found"),
    [
        ("self.sampler = RandomSampler(data)", ["DDP710"]),
        ("self.sampler = RandomSampler(data) if config.plain else None", ["DDP710"]),
        ("self.sampler = Elastic(data)\n        self.sampler = RandomSampler(data)", ["DDP710"]),
        ("self.sampler = Elastic(data) if config.elastic else RandomSampler(data)", []),
        ("self.sampler = RandomSampler(data) if config.plain else config.sampler", []),
        (
            "self.sampler = RandomSampler(data)\n        if config.elastic:\n            self.sampler = Elastic(data)",
            [],
        ),
        (
            "one = RandomSampler(data)\n        if config.elastic:\n            one = Elastic(data)\n        self.sampler = one",
            [],
        ),
    ],
)
def test_a_sampler_that_may_be_an_unknown_one_is_not_judged(sampler: str, found: list[str]) -> None:
    """Where an alternative is not known, it may be a sampler that gives each rank its part."""
    judged = diagnose(source(train=SAMPLED.format(sampler=sampler)), select=("DDP710",)).findings
    assert [each.code for each in judged] == found
