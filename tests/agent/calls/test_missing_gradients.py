"""What a rank answers about parameters that have no gradient."""

from __future__ import annotations

import json

import pytest
import torch

from ddpdoctor.agent.inside.calls import missing_gradients


class Wrapped(torch.nn.Module):
    """A model in a wrapper with the options of DistributedDataParallel."""

    def __init__(self, *, find_unused_parameters: bool = False, static_graph: bool = False) -> None:
        super().__init__()
        self.module = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "extra": torch.nn.Linear(2, 1)})
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph

    def trains(self, *names: str) -> None:
        """A backward through these layers."""
        sum((self.module[name](torch.ones(2)).sum() for name in names), torch.zeros(1)).backward()


def told() -> tuple[list[str], int]:
    names, total = json.loads(missing_gradients.missing_gradients())
    return names, total


@pytest.fixture(autouse=True)
def _no_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_gradients, "_models", set())


def test_a_layer_that_the_loss_left_out_is_told() -> None:
    model = Wrapped()
    missing_gradients.note_model(model)
    model.trains("used")
    assert told() == (["extra.weight", "extra.bias"], 2)


def test_nothing_is_told_before_a_backward_and_of_layers_that_are_frozen_or_all_used() -> None:
    frozen, complete, untrained = Wrapped(), Wrapped(), Wrapped()
    frozen.module["extra"].requires_grad_(requires_grad=False)
    for model in (frozen, complete, untrained):
        missing_gradients.note_model(model)
    frozen.trains("used")
    complete.trains("used", "extra")
    assert told() == ([], 0)


@pytest.mark.parametrize("option", ["find_unused_parameters", "static_graph"])
def test_a_model_whose_wrapper_looks_for_such_layers_itself_is_left_out(option: str) -> None:
    model = Wrapped(**{option: True})
    missing_gradients.note_model(model)
    model.trains("used")
    assert told() == ([], 0)
