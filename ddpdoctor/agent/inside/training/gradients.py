"""The gradients of a window: each parameter's own before DDP reduces it, and what the optimizer gets."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from ..overhead_budget import Budget
from ..schema.step_records import Gradients
from ..signal_errors import job_keeps, pass_on
from ..tensors.dtensor import is_meshed
from ..tensors.module_listing import same
from ..tensors.packed_tensors import LocalGradients
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter, verbatim
from .ddp_models import Models
from .optimizer_settings import parameters_of
from .parameter_origin import Origins

CALLED_AND_COPIED = 1.5
"""What a hook takes, autograd's call of it included, over the copy: 13,000 instructions over 8,000 on 1,000 small tensors."""


class GradientHooks:
    """Hooks on parameters that copy or project each local gradient of a window; `read` returns what became of them."""

    def __init__(self, trace: TraceWriter, budget: Budget, digests: Digests, models: Models) -> None:
        self._trace, self._budget, self._digests, self._models = trace, budget, digests, models
        self._known: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._has_more = False  # than when it was hooked
        self._frozen: list[weakref.ref[Tensor]] = []  # those of them that had no hook then
        self._listed: list[Any] = []
        self._hooks = _Hooks(trace, budget, digests)
        self._stepped: WeakKeyDictionary[Optimizer, _Stepped] = WeakKeyDictionary()

    def know(self, parameters: Iterable[Tensor]) -> None:
        """Follow these too from the next window on; sharded ones are left alone."""
        self._known.update((id(parameter), parameter) for parameter in parameters if not is_meshed(parameter))
        self._has_more = True

    def follow(self, *, same_gradients: bool) -> None:
        """A window begins: hook the parameters of the wrapped models, and what else is known.

        With `same_gradients` they are those of the window before, for another optimizer.
        """
        listed = [model.parameters() for model in self._models]
        if not same(listed, self._listed):
            self._listed = listed
            self.know(parameter for named in listed for parameter in named.values())
        unfrozen = [one for there in self._frozen if (one := there()) is not None and one.requires_grad]
        if self._has_more or unfrozen or not self._hooks.are_there:
            known = [one for there in self._known.valuerefs() if (one := there()) is not None]
            self._frozen = [weakref.ref(one) for one in known if not one.requires_grad]
            self._hooks.follow([one for one in known if one.requires_grad])
            self._has_more = False
        self._hooks.begin(again=same_gradients)

    def forget(self) -> None:
        """The window is over; what was noted is kept for another optimizer that steps with the same gradients."""
        self._hooks.rest(keep=self._budget.interval == 1)

    def read(self, optimizer: Optimizer, origins: Origins) -> Gradients:
        """The gradients that `optimizer` steps with: fingerprints, projections before and after, and DDP's part in them."""
        named = self._models.parameters(optimizer)
        stepped = self._stepped.get(optimizer)
        if stepped is None or stepped.named is not named or stepped.wraps != self._models.wraps:
            stepped = self._stepped[optimizer] = _stepped(named, optimizer, self._models)
            self.know(stepped.parameters)
        gradients = [parameter.grad for parameter in stepped.parameters]
        present = [gradient for gradient in gradients if gradient is not None]
        names, parameters, standings = stepped.names, stepped.parameters, stepped.standings
        if len(present) < len(gradients):
            there = [place for place, gradient in enumerate(gradients) if gradient is not None]
            names, standings = [names[place] for place in there], [standings[place] for place in there]
            parameters = [parameters[place] for place in there]
        digests = self._digests.joined(present, "gradients")
        reduced = self._digests.packed("gradients").projections(present) if present else torch.zeros(0, device="cpu")
        parities = self._digests.parities_of("gradients", present) if self._models.count else ""
        counts, local = self._hooks.of(parameters)
        if not self._models.count:  # FSDP may train whole parameters and step parts of them
            counts = [count * whole for count, whole in zip(counts, self._hooks.are_whole(parameters), strict=True)]
        return Gradients(
            names=self._trace.unless_repeated("gradient names", names),
            digests=verbatim(digests),
            reduced=verbatim(_hex(reduced)),
            local=verbatim(_hex(local)),
            counts=counts,
            standings=self._trace.unless_repeated("standings", standings),
            origins={
                name: line
                for name, parameter, standing in zip(names, parameters, standings, strict=True)
                if standing != "reduced" and (line := origins.of(parameter, standing)) is not None
            }
            | origins.registered(named),
            not_finite=() if _all_finite(local) else tuple(not_finite(named)),
            parities=verbatim(parities),
        )


class _Stepped(NamedTuple):
    """The parameters that an optimizer steps, and what DDP makes of each."""

    named: dict[str, Tensor]
    wraps: int
    names: list[str]
    parameters: list[Tensor]
    standings: list[str]


def _stepped(named: dict[str, Tensor], optimizer: Optimizer, models: Models) -> _Stepped:
    own = set(map(id, parameters_of(optimizer)))
    stepped = {name: parameter for name, parameter in named.items() if id(parameter) in own}
    standings = [models.standing(name, parameter) for name, parameter in stepped.items()]
    return _Stepped(named, models.wraps, list(stepped), list(stepped.values()), standings)


class _Hooks:
    """One hook for each parameter. A window with a thousand parameters runs a thousand of them, so they do little."""

    def __init__(self, trace: TraceWriter, budget: Budget, digests: Digests) -> None:
        self._trace, self._budget, self._digests = trace, budget, digests
        self._handles: list[RemovableHandle] = []
        self._hooked: list[weakref.ref[Tensor]] = []
        self._places: dict[int, int] = {}  # in it, by the parameter's id
        self._counts: list[int] = []
        self._sizes: dict[int, int] = {}  # by place, of gradients that were not copied as they came
        self._gradients: LocalGradients | None = None
        self._at_work = False
        self._take = trace.observing(self._take_any)

    @property
    def are_there(self) -> bool:
        """Whether parameters have them now."""
        return bool(self._handles)

    def follow(self, parameters: list[Tensor]) -> None:
        """`parameters` have one each from here on."""
        if self._gradients is None or not same([one() for one in self._hooked], parameters):
            before = self.of(parameters)
            self._drop()
            self._hooked = [*map(weakref.ref, parameters)]
            self._places = {id(parameter): place for place, parameter in enumerate(parameters)}
            self._gradients = LocalGradients(parameters, self._digests.method)
            self._counts[:] = before[0]
            self._gradients.carry_over(before[1])
        if not self._handles:
            self._handles = [
                parameter.register_post_accumulate_grad_hook(self._hook(place))
                for place, parameter in enumerate(parameters)
            ]

    def begin(self, *, again: bool) -> None:
        """Note what gradients come from here on; with `again` besides what has been noted."""
        self._at_work = True
        if not again and self._gradients is not None:
            self._counts[:] = [0] * len(self._counts)
            self._gradients.forget()
            self._sizes.clear()

    def rest(self, *, keep: bool) -> None:
        """Note nothing from here on; with `keep` the hooks stay where they are, for the next window."""
        self._at_work = False
        if not keep:
            self._drop()

    def of(self, parameters: list[Tensor]) -> tuple[list[int], Tensor]:
        """For each of `parameters` how often it got a gradient, and the projection of what it had got the last time."""
        if self._gradients is None:
            return [0] * len(parameters), torch.zeros(len(parameters), dtype=torch.float64, device="cpu")
        local = self._gradients.projections()
        if same(parameters, [one() for one in self._hooked]):
            return list(self._counts), local
        places = [self._places.get(id(parameter), -1) for parameter in parameters]
        local = torch.cat(
            [local, torch.zeros(1, dtype=torch.float64, device="cpu")]
        )  # the last one for a parameter without a hook
        return [self._counts[place] if place >= 0 else 0 for place in places], local[places]

    def are_whole(self, parameters: list[Tensor]) -> list[bool]:
        """Whether the gradient that each of `parameters` got has as many elements as the parameter has now."""
        places = [self._places.get(id(parameter), -1) for parameter in parameters]
        targets = [self._gradients.target(place) if self._gradients is not None else None for place in places]
        sizes = [
            self._sizes.get(place, parameter.numel() if target is None else target.numel())
            for place, target, parameter in zip(places, targets, parameters, strict=True)
        ]
        return [size == parameter.numel() for size, parameter in zip(sizes, parameters, strict=True)]

    def _drop(self) -> None:
        if not self._handles:
            return
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, place: int) -> Callable[[Tensor], None]:
        assert self._gradients is not None
        target, take, trace, counts = self._gradients.target(place), self._take, self._trace, self._counts
        kind = target.dtype if target is not None else None
        is_timed = not self._budget.every  # else nothing depends on it

        def accumulated(parameter: Tensor) -> None:
            """A local gradient is complete; DDP has not reduced it yet."""
            try:
                if not self._at_work:
                    return
                if target is None or trace.is_seen or torch.is_grad_enabled():
                    take(place, parameter)
                    return
                gradient = parameter.grad
                if gradient is None or gradient.dtype is not kind:
                    take(place, parameter)
                    return
                began = time.perf_counter() if is_timed else 0.0
                try:
                    target.copy_(gradient)
                except (RuntimeError, TypeError) as error:  # a sparse one, or one of a class that copies nothing
                    pass_on(error)
                    take(place, parameter)
                    return
                counts[place] += 1
                if is_timed:
                    trace.spent += CALLED_AND_COPIED * (time.perf_counter() - began)
            except BaseException as error:
                trace.failed_in_backward(error)

        accumulated.__dict__["_torchdynamo_disable"] = True  # what compiled autograd asks
        return accumulated

    def _take_any(self, place: int, parameter: Tensor) -> None:
        gradient = parameter.grad
        if gradient is not None and self._gradients is not None:
            with self._budget:
                self._gradients.take(place, gradient)
                self._counts[place] += 1
                self._sizes[place] = gradient.numel()


def not_finite(named: Mapping[str, Tensor]) -> Iterator[str]:
    """The names of trained parameters that have a NaN or an infinity."""
    for name, parameter in named.items():
        with job_keeps(RuntimeError):  # of a layout or a dtype of which torch does not tell it
            if parameter.requires_grad and not torch.isfinite(parameter.detach()).all():
                yield name


def _all_finite(numbers: Tensor) -> bool:
    """Whether all of these are finite: float64 in CPU memory, of which NumPy tells it in a fifth of the time."""
    import numpy as np

    return bool(np.isfinite(numbers.numpy()).all())


def _hex(numbers: Tensor) -> str:
    return numbers.double().contiguous().numpy().tobytes().hex()
