"""Which modules are in evaluation mode: those that ask for it, in what is trained."""

from __future__ import annotations

import copy

import pytest
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Evaluating
from ddpdoctor.agent.inside.training.training_modes import TrainingModes


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.1), nn.LayerNorm(2))


def evaluating(module: nn.Module) -> Evaluating | None:
    return TrainingModes().of(module, object())


def test_all_in_training_mode_is_nothing() -> None:
    assert evaluating(model()) is None


def test_the_whole_model_is_told_from_a_part() -> None:
    whole, part = model().eval(), model()
    part[2].eval()
    all_of_it, dropout = evaluating(whole), evaluating(part)
    assert all_of_it is not None
    assert dropout is not None
    assert (all_of_it.names, all_of_it.total) == (("",), 2)
    assert (dropout.names, dropout.total) == (("2",), 1)
    assert all_of_it.digest != dropout.digest


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(2, 2), nn.LayerNorm(2), nn.Dropout(0.0), nn.BatchNorm1d(2, track_running_stats=False), nn.GRU(2, 2),
        nn.MultiheadAttention(2, 1), nn.ReLU(),
    ],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_what_computes_the_same_in_both_modes_does_not_count(module: nn.Module) -> None:
    assert evaluating(nn.Sequential(nn.Linear(2, 2), module).eval()) is None


class Attention(nn.MultiheadAttention):
    """One whose dropout is a module."""

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.dropout = nn.Dropout(0.1)  # type: ignore[assignment]


class StochasticDrop(nn.Module):
    """A module of somebody's own."""


@pytest.mark.parametrize(
    "module",
    [
        nn.BatchNorm1d(2), nn.InstanceNorm1d(2, track_running_stats=True), nn.Dropout2d(0.5), nn.GRU(2, 2, 2, dropout=0.1),
        nn.MultiheadAttention(2, 1, dropout=0.1), nn.RReLU(), StochasticDrop(), Attention(),
    ],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_what_asks_for_its_mode_counts(module: nn.Module) -> None:
    assert evaluating(nn.Sequential(nn.Linear(2, 2), module).eval()) is not None


def test_an_average_inside_of_the_model_does_not_count() -> None:
    trained = nn.ModuleDict({"online": model()})
    trained["average"] = copy.deepcopy(trained["online"]).requires_grad_(False)
    trained["average"].eval()
    assert evaluating(trained) is None
    trained["online"][1].requires_grad_(False).eval()  # frozen statistics of what is trained
    found = evaluating(trained)
    assert found is not None
    assert found.names == ("online.1",)


def test_modules_are_walked_through_again_once_they_are_listed_anew() -> None:
    modes, module, listed = TrainingModes(), model().eval(), object()
    assert modes.of(module, listed) is not None
    module[1], module[2] = nn.Identity(), nn.Identity()
    assert modes.of(module, object()) is None
