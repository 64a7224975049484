"""An optimizer step made again on copies: whether this rank comes to the same weights from the same inputs.

Weights, gradients, state and random generators are kept before the step. After it the step is made twice more from them. Nothing
that the user holds is touched, and no collective is made: a step that called one is not made again.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from ..job_modes import put_back
from ..schema.hardware_records import Recomputed
from ..signal_errors import pass_on
from ..tensors.bit_parity import parities
from ..tensors.dtensor import is_meshed
from ..tensors.tensor_digests import Digests, tensors_in
from ..trace_writer import TraceWriter
from .ddp_models import Models
from .optimizer_settings import parameters_of
from .step_counts import StepCounts

MOST_OPERATIONS = 1 << 14  # of one step whose results are compared: four for each of 4,000 parameters
COMMUNICATES = ("c10d", "_c10d_functional", "c10d_functional")  # the namespaces of operations with other ranks
UNDEFINED = "empty"  # operations with this in their name return memory as it is


class Recomputation:
    """Keeps what an audited step depends on, and makes the step again; does nothing where it is not wanted."""

    def __init__(
        self,
        trace: TraceWriter,
        digests: Digests,
        models: Models,
        wanted: Callable[[], bool],
        collectives: Callable[[], int],
    ) -> None:
        self._trace, self._digests, self._models = trace, digests, models
        self._wanted, self._collectives = wanted, collectives
        self._kept: _Inputs | None = None
        self._failed = ""
        self._called = 0
        self.is_running = False

    def before_step(self, optimizer: Optimizer, *, closure: bool) -> None:
        """The optimizer is about to step."""
        self._kept, self._failed, self._called = None, "", self._collectives()
        if not self._wanted():
            return
        self._failed = _why_not(optimizer, closure=closure)
        if not self._failed:
            try:
                given = self._digests.joined([*self._models.parameters().values()], "recomputed")
                self._kept = _Inputs(optimizer, given)
            except Exception as error:  # a user's optimizer may refuse to be copied
                pass_on(error)
                self._failed = f"it cannot be copied ({type(error).__name__}: {error})"

    def after_step(self, optimizer: Optimizer, counts: StepCounts, beside: int) -> None:
        """The optimizer has stepped: make the step again, and write down what comes of it."""
        kept, self._kept = self._kept, None
        if kept is None and not self._failed:
            return
        runs: list[_Run] = []
        if kept is not None and self._collectives() != self._called:
            self._failed = "it calls collectives"
        elif kept is not None:
            self.is_running = True
            try:
                runs = [self._run(kept, optimizer) for _ in range(2)]
            except Exception as error:  # a copy may lack what only the user's optimizer has
                pass_on(error)
                self._failed = f"a copy of it cannot step ({type(error).__name__}: {error})"
            finally:
                self.is_running = False
        first, second = runs or (_Run(), _Run())
        self._trace.write(
            Recomputed(
                forwards=counts.forwards,
                since=counts.since,
                beside=beside,
                given=kept.weights if kept is not None else "",
                first=first.weights,
                second=second.weights,
                parity=first.parity,
                operation=_first_difference(first.results, second.results),
                failed=self._failed,
            )
        )

    def _run(self, kept: _Inputs, optimizer: Optimizer) -> _Run:
        again = kept.optimizer()
        stepped = dict(zip(map(id, parameters_of(optimizer)), parameters_of(again), strict=True))
        operations = _Operations(self._digests)
        step: Any = type(again).step
        with kept.random_state(), put_back(), operations:
            getattr(step, "__wrapped__", step)(again)  # without the hooks that PyTorch wraps around it
        weights = [stepped.get(id(parameter), parameter) for parameter in self._models.parameters().values()]
        return _Run(self._digests.joined(weights, "recomputed"), parities(weights), operations.results)


class _Run:
    """What came of one repetition."""

    def __init__(self, weights: str = "", parity: str = "", results: Sequence[tuple[str, str]] = ()) -> None:
        self.weights, self.parity, self.results = weights, parity, results


class _Inputs:
    """Copies of all that a step depends on."""

    def __init__(self, optimizer: Optimizer, weights: str) -> None:
        self.weights = weights  # their fingerprints
        self._optimizer = copy.deepcopy(optimizer)
        self._gradients = [_copied(parameter.grad) for parameter in parameters_of(optimizer)]
        self._random = random.getstate(), torch.get_rng_state()
        self._numpy = _numpy_random().get_state() if _numpy_random() is not None else None
        self._devices = sorted({p.device.index for p in parameters_of(optimizer) if p.is_cuda})
        self._on_devices = [torch.cuda.get_rng_state(device) for device in self._devices]

    def optimizer(self) -> Optimizer:
        """An optimizer with parameters, gradients and state of its own."""
        again = copy.deepcopy(self._optimizer)
        for parameter, gradient in zip(parameters_of(again), self._gradients, strict=True):
            parameter.grad = _copied(gradient)
        return again

    @contextmanager
    def random_state(self) -> Iterator[None]:
        """Random generators as they were before the step; in the end they are as they are now."""
        now, numpy = random.getstate(), _numpy_random()
        numpy_now = numpy.get_state() if numpy is not None else None
        with torch.random.fork_rng(devices=self._devices):
            random.setstate(self._random[0])
            torch.set_rng_state(self._random[1])
            if numpy is not None and self._numpy is not None:
                numpy.set_state(self._numpy)
            for device, state in zip(self._devices, self._on_devices, strict=True):
                torch.cuda.set_rng_state(state, device)
            try:
                yield
            finally:
                random.setstate(now)
                if numpy is not None:
                    numpy.set_state(numpy_now)


def _numpy_random() -> Any:  # noqa: ANN401
    """NumPy's random generator, where the job has loaded NumPy."""
    return getattr(sys.modules.get("numpy"), "random", None)


class _Operations(TorchDispatchMode):
    """Notes the name of each operation and the fingerprint of its result; where it returns none, of what it writes."""

    def __init__(self, digests: Digests) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._digests = digests
        self.results: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        if getattr(func, "namespace", "") in COMMUNICATES:
            raise RuntimeError("it communicates")  # a repetition must not: its peers may not be in it
        result = func(*args, **(kwargs or {}))
        name = str(func).rpartition(".")[0]
        if UNDEFINED not in name and len(self.results) < MOST_OPERATIONS:
            self.results.append((name, self._digests.of([*tensors_in([result])] or [*tensors_in(list(args[:1]))])))
        return result


def _why_not(optimizer: Optimizer, *, closure: bool) -> str:
    """Why its step cannot be made again; nothing where it can."""
    if closure:
        return "it steps with a closure"
    if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
        return "it unscales gradients itself"
    if optimizer._optimizer_step_post_hooks:  # noqa: SLF001 - ours are global, and pre-hooks have been called by now
        return "it has step hooks of its own"
    if any(is_meshed(parameter) for parameter in parameters_of(optimizer)):
        return "it steps parameters on a device mesh"
    return ""


def _first_difference(first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]]) -> str:
    """The first operation of two runs that returned something else, or that only one of them made."""
    return next((one[0] for one, other in zip(first, second, strict=False) if one != other), "")


def _copied(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()
