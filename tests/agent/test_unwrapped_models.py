"""Models beside the wrapped ones are found by their names in the running program."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn

from ddpdoctor.agent.inside.forward_hook import ForwardHook
from ddpdoctor.agent.inside.reachable_objects import MOST_OBJECTS, reachable


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


def test_objects_are_reached_by_the_names_that_the_program_has_for_them() -> None:
    trainer = Trainer()
    names = {name: value for name, value in found().items() if isinstance(value, nn.Module)}

    assert names["trainer.teacher"] is trainer.teacher
    assert names["trainer.callbacks[1]['ema']"] is trainer.callbacks[1]["ema"]


def test_nothing_inside_is_reached_where_it_is_not_entered() -> None:
    trainer = Trainer()
    assert trainer in found(enters=False).values()
    assert not any(value is trainer.teacher for value in found(enters=False).values())


def test_a_large_program_costs_no_more_than_so_many_objects() -> None:
    crowd = [[[object() for _ in range(40)] for _ in range(60)] for _ in range(60)]
    assert len([*reachable(lambda _: True)]) == MOST_OBJECTS
    assert crowd


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
