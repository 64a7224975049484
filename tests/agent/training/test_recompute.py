"""An optimizer step that is made again on copies: the job sees nothing of it, and what is not deterministic is named."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.hardware_records import Recomputed
from ddpdoctor.agent.inside.tensors.tensor_digests import Digests
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training.ddp_models import Models
from ddpdoctor.agent.inside.training.recompute import Recomputation
from ddpdoctor.agent.inside.training.step_counts import StepCounts


class _Written(TraceWriter):
    """Keeps what is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Rank(str(folder)))
        self.records: list[object] = []

    def write(self, record: object) -> None:
        self.records.append(record)


class _OneModel(Models):
    """A model that nobody has wrapped."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module

    def parameters(self, optimizer: object = None) -> dict[str, torch.Tensor]:
        return dict(self._module.named_parameters())


class _Rounded(torch.optim.SGD):
    """Adds noise to the weights, as stochastic rounding does: from the global generator, or from one of its own."""

    def __init__(self, parameters: object, *, own: bool) -> None:
        super().__init__(parameters, lr=0.1)  # type: ignore[arg-type]
        self.defaults["own"] = self.param_groups[0]["own"] = own

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        super().step(closure)  # type: ignore[arg-type]
        for group in self.param_groups:
            generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(6), "big")) if group["own"] else None
            for parameter in group["params"]:
                parameter.data.add_(
                    torch.rand(parameter.shape, generator=generator), alpha=1e-3 + random.random() * 1e-3
                )


def repeated(folder: Path, optimizer: torch.optim.Optimizer, module: nn.Module, calls: list[int]) -> Recomputed:
    """What is written about one step of `optimizer`, in which as many collectives are called as `calls` has numbers, less one."""
    trace = _Written(folder)
    recomputation = Recomputation(trace, Digests(trace), _OneModel(module), lambda: True, lambda: calls.pop(0))
    module(torch.ones(2, 8)).sum().backward()
    recomputation.before_step(optimizer, closure=False)
    optimizer.step()
    with torch.no_grad():
        recomputation.after_step(optimizer, StepCounts(), 0)
    (record,) = trace.records
    assert isinstance(record, Recomputed)
    return record


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))


def weights(module: nn.Module, folder: Path) -> str:
    return Digests(_Written(folder)).joined([*module.parameters()], "recomputed")


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_an_optimizer_comes_to_the_same_weights_and_the_job_sees_nothing_of_it(name: str, tmp_path: Path) -> None:
    module = network()
    optimizer = getattr(torch.optim, name)(module.parameters(), lr=0.01)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # puts a step of its own on the optimizer
    states = random.getstate(), torch.get_rng_state()
    record = repeated(tmp_path, optimizer, module, [0, 0])
    assert (record.failed, record.operation) == ("", "")
    assert record.first == record.second == weights(module, tmp_path)
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    alone = network()
    other = getattr(torch.optim, name)(alone.parameters(), lr=0.01)
    alone(torch.ones(2, 8)).sum().backward()
    other.step()
    assert weights(alone, tmp_path) == weights(module, tmp_path)
    assert [*map(str, optimizer.state.values())] == [*map(str, other.state.values())]


def test_numbers_of_the_global_generators_are_drawn_again(tmp_path: Path) -> None:
    module = network()
    record = repeated(tmp_path, _Rounded(module.parameters(), own=False), module, [0, 0])
    assert record.first == record.second == weights(module, tmp_path)


def test_an_operation_that_returns_something_else_each_time_is_named(tmp_path: Path) -> None:
    module = network()
    record = repeated(tmp_path, _Rounded(module.parameters(), own=True), module, [0, 0])
    assert record.first != record.second
    assert record.operation == "aten.rand"


def test_what_cannot_be_made_again_is_left_out(tmp_path: Path) -> None:
    module = network()
    with_collectives = repeated(tmp_path, torch.optim.SGD(module.parameters()), module, [0, 1])
    assert with_collectives.failed == "it calls collectives"
    optimizer = torch.optim.SGD(module.parameters())
    optimizer.state[next(module.parameters())]["lock"] = sys.stdout  # nobody copies that
    assert repeated(tmp_path, optimizer, module, [0]).failed.startswith("it cannot be copied (TypeError")


def test_a_step_with_hooks_of_its_own_is_not_made_again(tmp_path: Path) -> None:
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: None)
    assert repeated(tmp_path, optimizer, module, [0, 0]).failed == "it has step hooks of its own"


class _WithNumpy(torch.optim.SGD):
    """Draws from NumPy's global generator."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        super().step(closure)  # type: ignore[arg-type]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(float(np.random.random()) * 1e-3)


def test_numpy_goes_on_as_if_the_step_had_been_made_once(tmp_path: Path) -> None:
    np.random.seed(5)
    module = network()
    found = repeated(tmp_path, _WithNumpy(module.parameters(), lr=0.1), module, [0, 0])
    after = np.random.random()
    np.random.seed(5)
    for _ in module.parameters():
        np.random.random()
    assert np.random.random() == after
    assert found.first == found.second
