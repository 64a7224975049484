"""Inside an observer each model is walked through once, and the versions of what an optimizer keeps are added up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.tensors.module_listing import Listing
from ddpdoctor.agent.inside.training.ddp_models import Models
from ddpdoctor.agent.inside.training.integrity import IntegrityLog
from ddpdoctor.agent.inside.training.step_counts import StepCounts


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The module of each walk."""
    made: list[nn.Module] = []
    walk = Listing.of
    monkeypatch.setattr(Listing, "of", lambda self, of: made.append(of) or walk(self, of))  # type: ignore[func-returns-value]
    return made


def test_a_held_model_is_walked_through_once_and_again_after_it(walks: list[nn.Module]) -> None:
    models, module = Models(), nn.Linear(2, 2)
    models.add(module)
    with models.held():
        assert [*models.parameters()] == [*models.parameters()] == ["weight", "bias"]
        assert len(walks) == 1
    module.extra = nn.Parameter(torch.zeros(1))
    assert [*models.parameters()] == ["weight", "bias", "extra"]


def test_a_block_in_a_block_walks_through_no_model_again(walks: list[nn.Module]) -> None:
    models, module = Models(), nn.Linear(2, 2)
    models.add(module)
    with models.held():
        with models.held():
            models.parameters()
        models.parameters()
    assert len(walks) == 1
    models.parameters()
    assert len(walks) == 2


def test_a_held_model_is_released_by_an_error() -> None:
    models, module = Models(), nn.Linear(2, 2)
    models.add(module)
    with pytest.raises(ZeroDivisionError), models.held():
        _ = 1 / 0
    module.weight = nn.Parameter(torch.ones(2, 2))
    assert models.parameters()["weight"] is module.weight


@pytest.mark.parametrize("beside", [{}, {"step": 3}, {"name": "a text"}])
def test_what_an_optimizer_keeps_beside_tensors_has_no_version(beside: dict[str, Any]) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    moment = torch.zeros(2)
    for _ in range(3):
        moment.add_(1)
    optimizer.state[parameter] = {"moment": moment, **beside}
    written: list[Any] = []
    trace: Any = SimpleNamespace(write=written.append)
    digests: Any = SimpleNamespace(parities=lambda _tensors: "")
    log = IntegrityLog(trace, digests, Models())
    log.before_step(optimizer)
    log.write(StepCounts(), 0, "")
    assert written[0].versions.state == 3


def test_a_part_of_a_wrapped_model_is_known_as_one_and_another_model_is_not() -> None:
    models, net = Models(), nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), nn.ReLU())
    models.add(net)
    assert models.have(net)
    assert models.have(net[1])
    assert not models.have(nn.Linear(2, 2))
    assert not models.have(net[2]), "nothing can be loaded into it"
    models.let_go()
    assert not models.have(net[1]), "it is not in training any more"
