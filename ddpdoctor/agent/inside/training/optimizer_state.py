"""Fingerprints of what an optimizer keeps for its parameters: momentum, variance, its own count of steps."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import Optimizer

from ..schema.final_records import LastState
from ..schema.model_records import NamedDigests
from ..signal_errors import job_keeps, pass_on
from ..tensors.dtensor import is_meshed
from ..tensors.module_listing import same
from ..tensors.named_tensors import as_tensor, named_state
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter, verbatim
from .ddp_models import Models
from .step_counts import StepCounts


class OptimizerState:
    """Names are the user's, as far as a wrapped model has them."""

    def __init__(self, trace: TraceWriter, digests: Digests, models: Models) -> None:
        self._trace, self._digests, self._models = trace, digests, models
        self._slots: WeakKeyDictionary[Optimizer, _Slots] = WeakKeyDictionary()
        self._last: LastState | None = None
        self._watched: weakref.ref[Tensor] | None = None  # one of the tensors, as it was kept after the latest step
        self._latest = 0  # its version then

    def of(self, optimizer: Optimizer) -> dict[str, str] | None:
        """By name the fingerprint of each tensor; None where each rank holds another part of the state."""
        found = self._found(optimizer)
        if found is None:
            return None
        names, digests = found
        return {name: digests[16 * place : 16 * place + 16] for place, name in enumerate(names)}

    def record(self, optimizer: Optimizer) -> NamedDigests | None:
        """The same as it stands in the trace."""
        found = self._found(optimizer)
        if found is None:
            return None
        return NamedDigests(self._trace.unless_repeated("state names", found[0]), verbatim(found[1]))

    def made(self, optimizer: Optimizer) -> None:
        """A step was made."""
        try:
            kept = _first_kept(optimizer)
            if kept is None or self._watched is None or self._watched() is not kept:
                self._watched = None if kept is None else weakref.ref(kept)
            self._latest = 0 if kept is None else kept._version  # noqa: SLF001 - PyTorch gives it no other name
        except Exception as error:  # an optimizer of the program's own
            pass_on(error)
            self._watched = None

    def _later(self, optimizer: Optimizer) -> int | None:
        """How often the tensor was written since the latest step; another one in its place was written at least once."""
        if self._watched is None:
            return None
        kept = _first_kept(optimizer)
        if kept is None or kept is not self._watched():
            return 1
        return kept._version - self._latest  # noqa: SLF001

    def look(self, optimizers: Iterable[Optimizer], counts: StepCounts, moment: str) -> None:
        """Training may be over: know what the optimizer of the models in training keeps now, where there is only one.

        When the process ends it is mostly gone, with the function that made it.
        """
        if not self._models.count or (self._last is not None and self._last.step == counts.steps):
            return
        steppers = [one for one in optimizers if self._models.are_stepped_by(one)]
        if len(steppers) == 1:
            with job_keeps(Exception):  # the user may have taken it apart since its last step
                if (found := self._found(steppers[0])) is not None and found[0]:
                    self._last = LastState(
                        counts.steps, counts.shadowed, found[0], verbatim(found[1]), moment, self._later(steppers[0])
                    )

    def write_last(self, optimizers: Iterable[Optimizer], counts: StepCounts) -> None:
        """The process ends: write down what it kept after the last step, where that is known."""
        self.look(optimizers, counts, "end")
        if self._last is not None and self._last.step == counts.steps:
            self._trace.write(self._last)

    def _found(self, optimizer: Optimizer) -> tuple[list[str], str] | None:
        if "ZeroRedundancy" in type(optimizer).__name__:
            return None
        model = next(iter(self._models), None)
        slots = self._slots.setdefault(optimizer, _Slots())
        tensors = slots.tensors(optimizer, model.module if model else None)
        return slots.names, self._digests.joined(tensors, "state")


def _first_kept(optimizer: Optimizer) -> Tensor | None:
    """One of the tensors that are kept for the first parameter: an average, where a count of steps is kept, too."""
    kept = optimizer.state.get(optimizer.param_groups[0]["params"][0])
    if not isinstance(kept, dict):
        return None
    for one in reversed(kept.values()):  # no generator: it is asked for at every step
        if isinstance(one, Tensor):
            return one
    return None


class _Slots:
    """What an optimizer keeps for which parameter; worked out again only where it keeps other things."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The names of the tensors."""
        self._model: Any = None
        self._held_for: list[Tensor] = []
        self._keys: list[Any] = []
        self._kinds: list[type] = []
        self._places: list[int] | None = None  # of the tensors, in all that is kept
        self._numbers: list[int] = []  # the places of those that are plain numbers

    def tensors(self, optimizer: Optimizer, model: Any) -> list[Tensor]:  # noqa: ANN401
        """The tensors that are called `names`."""
        state: dict[Any, Any] = dict(optimizer.state)
        if set(map(type, state.values())) != {dict}:
            state = {one: kept for one, kept in state.items() if isinstance(kept, dict)}
        held_for = [*state]
        keys = [*chain.from_iterable(state.values())]
        values = [*chain.from_iterable(map(dict.values, state.values()))]
        kinds = [*map(type, values)]
        unchanged = self._places is not None and model is self._model and same(held_for, self._held_for)
        if not unchanged or keys != self._keys or kinds != self._kinds:
            self._model, self._held_for, self._keys, self._kinds = model, held_for, keys, kinds
            slots = ((id(one), key) for one, kept in state.items() for key in kept)
            number_of = {slot: number for number, slot in enumerate(slots)}
            self.names, self._places, self._numbers = [], [], []
            for name, one, key in named_state(model, optimizer):
                tensor = as_tensor(optimizer.state[one][key])
                if tensor is not None and not is_meshed(tensor):
                    number = number_of[id(one), key]
                    self.names.append(name)
                    self._places.append(number)
                    if tensor is not values[number]:
                        self._numbers.append(number)
        assert self._places is not None
        for number in self._numbers:
            values[number] = as_tensor(values[number])
        return [values[place] for place in self._places]
