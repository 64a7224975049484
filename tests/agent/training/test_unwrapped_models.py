"""Models beside the wrapped ones are found by their names in the running program."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.reachable_objects import MOST_OBJECTS, reachable
from ddpdoctor.agent.inside.training.forward_hook import ForwardHook
from ddpdoctor.agent.inside.training.unwrapped_models import UnwrappedLog, _containers


class Trainer:
    """Keeps what a trainer keeps."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = [object(), {"ema": nn.Linear(2, 2)}]
        self.teacher = nn.Linear(2, 2)
        self.itself = self

    @property
    def costly(self) -> None:
        """No property of the user's may run."""
        raise AssertionError

    def __getattr__(self, name: str) -> object:
        raise AssertionError(name)


def found(*, enters: bool = True) -> dict[str, object]:
    return {name: value for name, value, _, _ in reachable(lambda _: enters)}


def found_beside(trainer: Trainer, *, enters: bool = True) -> dict[str, object]:
    """What is found from a function that has a trainer; pytest gives a function with an `assert` a call of `locals()`."""
    names = found(enters=enters)
    return names if trainer is not None else {}


def test_objects_are_reached_by_the_names_that_the_program_has_for_them() -> None:
    trainer = Trainer()
    names = {name: value for name, value in found_beside(trainer).items() if type(value) is nn.Linear}

    assert names["trainer.teacher"] is trainer.teacher
    assert names["trainer.callbacks[1]['ema']"] is trainer.callbacks[1]["ema"]


def test_nothing_inside_is_reached_where_it_is_not_entered() -> None:
    trainer = Trainer()
    names = found_beside(trainer, enters=False)
    assert names["trainer"] is trainer
    assert not any(value is trainer.teacher for value in names.values())


class Proxy:
    """Runs code of the user's for whoever asks what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise AssertionError


class Record(dict[str, Any]):
    """Runs code of the user's for whoever looks inside."""

    def items(self) -> Any:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


def test_no_code_of_the_users_runs_and_odd_attributes_are_passed_over() -> None:
    trainer = Trainer()
    trainer.__dict__[1] = "one"  # type: ignore[index]
    trainer.callbacks += [Proxy(), Record(ema=nn.Linear(2, 2))]
    assert "trainer.callbacks[3]['ema']" in found_beside(trainer)


def test_what_a_function_lets_go_after_the_look_is_gone() -> None:
    """Up to Python 3.12 the dictionary of a frame's variables stays with the frame."""

    def train() -> tuple[bool, bool]:
        batch = nn.Linear(2, 2)
        gone = weakref.ref(batch)
        seen = "batch" in found()
        del batch
        return seen, gone() is None

    assert train() == (True, True)


def test_variables_of_a_function_that_asks_for_them_itself_stay_as_they_are() -> None:

    def train(rate: float) -> dict[str, Any]:
        settings = locals()
        batch = rate
        found()
        return settings if batch else {}

    assert train(0.1) == {"rate": 0.1}


def test_a_large_program_costs_no_more_than_so_many_objects() -> None:
    def crowded() -> int:
        crowd = [[[object() for _ in range(40)] for _ in range(60)] for _ in range(60)]
        return len([*reachable(lambda _: True)]) if crowd else 0

    assert crowded() == MOST_OBJECTS


def test_a_hook_is_not_in_a_copy_or_a_pickle_of_the_module() -> None:
    calls: list[object] = []
    module = nn.Linear(2, 2)
    module.register_forward_pre_hook(ForwardHook(lambda *call: calls.append(call)), with_kwargs=True)
    module.register_state_dict_pre_hook(ForwardHook(lambda *call: calls.append(call)))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other(torch.zeros(2))
        other.state_dict()
    assert calls == []
    module(torch.zeros(2))
    module.state_dict()
    assert len(calls) == 2


def test_a_model_whose_uses_are_followed_can_be_scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: TorchScript compiles the hooks of a module."""
    monkeypatch.setattr(torch.jit, "script", torch.jit.script)  # put back at the end
    module, scripted = nn.Sequential(nn.Linear(2, 2)), torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    trace = SimpleNamespace(observing=lambda function: function)
    log = UnwrappedLog(trace, *[cast("Any", None)] * 3, lambda: ())
    log._follow_uses("ema", module)
    log._follow_uses("teacher", scripted)
    assert module._forward_pre_hooks
    torch.jit.script(module)(torch.zeros(2))
    assert not module._forward_pre_hooks


class Averages:
    """Several averages of one model, each with a rate of its own, as a list of lists of tensors."""

    def __init__(self, model: nn.Module) -> None:
        self.params = [[tensor.detach().clone() for tensor in model.parameters()] for _rate in (0.9, 0.99)]
        self.by_rate = {"slow": dict(model.state_dict())}
        self.history = [[torch.zeros(3)], [torch.zeros(3)]]


def test_averages_in_a_list_of_an_object_are_followed_one_by_one() -> None:
    model = nn.Linear(3, 2)
    averages = Averages(model)
    shapes = [Counter(tuple(one.shape) for one in model.parameters())]
    own = {id(one) for one in model.parameters()}

    def followed(attribute: str) -> dict[str, Any]:
        each = _containers(getattr(averages, attribute), averages, attribute, own, shapes)
        return {place: one for place, one in each if one is not None}

    found = followed("params")
    assert [*found] == ["[0]", "[1]"]
    assert all(map(torch.equal, found["[1]"].tensors(), averages.params[1]))
    assert [*followed("by_rate")] == ["['slow']"]
    assert not followed("history")

    averages.params = averages.params[:1]
    assert found["[0]"].tensors() is not None
    assert found["[1]"].tensors() is None


def test_an_error_in_a_users_object_ends_this_look_alone() -> None:
    trace = SimpleNamespace(observing=lambda function: function)
    log = UnwrappedLog(trace, *[cast("Any", None)] * 3, lambda: 1 / 0)
    log.write(0)
    log.write(0)
    log.close()
