"""What one rank sees of its own training, step by step: digests of weights, gradients, state and settings.

A window runs from the first forward after a step to the end of the next step. On audited windows every phase leaves its
fingerprints; on the others only counters move. Nothing here communicates, and nothing changes a bit of the user's tensors.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .batches import Batches
from .fingerprint import best_method, combined, digests
from .inventory import inventory, is_sharded, optimizer_state, unwrapped
from .journal import Journal, user_line
from .projection import projection

SAMPLED = 8  # elements a tensor whose values are written down
FIRST_SECONDS = 0.05  # what audits may cost before the job has run for long
SHARE = 0.015  # of the job's time that audits may cost after that
SPARSEST = 1 << 14


class Wrapped:
    """A model under DistributedDataParallel: its parameters as they were when it was wrapped."""

    def __init__(self, ddp: nn.Module, prefix: str) -> None:
        self.module = unwrapped(ddp)
        self.prefix = prefix
        self.names = {id(p): prefix + name for name, p in self.module.named_parameters()}
        self.reduced = {id(p) for p in self.module.parameters() if p.requires_grad}
        self.frozen_names = {prefix + name for name, p in self.module.named_parameters() if not p.requires_grad}
        ignored = set(getattr(ddp, "parameters_to_ignore", ()))
        self.reduced -= {id(p) for name, p in self.module.named_parameters() if name in ignored}


class Steps:
    """The story of one rank's training, kept up by hooks and written down at audited steps."""

    def __init__(self, journal: Journal, batches: Batches, every: int, collectives: Callable[[], int]) -> None:
        self._journal = journal
        self._batches = batches
        self._method = best_method()
        self._every = every
        self._interval = every or 1
        self._models: dict[int, Wrapped] = {}
        self._hooked: dict[int, Tensor] = {}
        self._start = time.perf_counter()
        self._spent = 0.0
        self._due = 0
        self.forwards = 0
        self._steps = 0
        self._since = 0  # steps since the last wrapped forward
        self._depth = 0
        self._open = False
        self._audited = False
        self._window: dict[str, Any] = {}
        self._local: dict[int, tuple[int, Tensor]] = {}
        self._last: dict[str, str] = {}
        self._names: list[str] = []
        self._scale: float | None = None
        self._collectives = collectives
        self._evaluation: dict[str, Any] | None = None

    def begin(self) -> None:
        """The rank has joined: say who writes."""
        rank = self._journal.rank
        self._journal.write(
            "rank", rank=rank.number, world_size=rank.world_size, host=socket.gethostname(), method=self._method,
            every=self._every,
        )  # fmt: skip

    def wrapped(self, ddp: Any) -> None:  # noqa: ANN401
        """A model was wrapped."""
        number = len(self._models)
        prefix = f"model{number + 1}:" if number else ""
        model = Wrapped(ddp, prefix)
        if id(model.module) in self._models:
            self._journal.write("wrapped-twice", line=user_line())
            return
        self._models[id(model.module)] = model
        ddp.module.register_forward_pre_hook(_Hook(self._journal.observing(self.inner_forward)), prepend=True)
        self._journal.write(
            "wrap", line=user_line(), prefix=prefix,
            sharded=sum(is_sharded(p) for p in model.module.parameters()),
        )  # fmt: skip
        self._write_table("start", self._parameters(), changed_only=False)

    def outer_forward(self, ddp: Any, inputs: Sequence[Any]) -> None:  # noqa: ANN401
        """The wrapper's forward begins."""
        if not (torch.is_grad_enabled() and ddp.training):
            return
        self._begin_window()
        self.forwards += 1
        self._since = 0
        self._window["wrapped"] += 1
        self._window["synchronised"] = bool(ddp.require_backward_grad_sync)
        if (epoch := self._batches.current) is not None:
            epoch.trained = True
        tensor = next(_tensors(inputs), None)
        if tensor is not None and tensor.dim():
            self._window["batch"] += tensor.shape[0]
        if self._audited and "input" not in self._window:
            with self._timed():
                self._window["input"] = self._digest(_tensors(inputs))

    def inner_forward(self, module: nn.Module, args: Any) -> None:  # noqa: ANN401
        """The user's own module is about to run: the moment at which DDP has made the buffers equal."""
        if not module.training and not torch.is_grad_enabled():
            self._evaluating(args)
        elif torch.is_grad_enabled() and module.training:
            self._begin_window()
            self._window["inner"] += 1
            if self._audited and "buffers" not in self._window:
                with self._timed():
                    self._window["buffers"] = self._buffers()

    def accumulated(self, parameter: Tensor) -> None:
        """A local gradient is complete; DDP has not reduced it yet."""
        if self._audited and parameter.grad is not None:
            with self._timed():
                count = self._local.get(id(parameter), (0,))[0]
                self._local[id(parameter)] = count + 1, projection(parameter.grad)

    def backward(self, loss: Tensor) -> None:
        """`loss.backward()` was called."""
        if self._audited and loss.numel() == 1:
            self._window["loss"] = repr(float(loss.detach()))

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """An optimizer is about to step: gradients are reduced, clipped and unscaled."""
        self._depth += 1
        if self._depth > 1:
            return
        self._begin_window()
        self._window["closure"] = bool(kwargs.get("closure") or any(map(callable, args[:1])))
        if self._audited:
            with self._timed():
                self._window["line"] = user_line()
                self._window["settings"] = _settings(optimizer)
                self._window["state"] = self._state(optimizer)
                if not self._window["closure"]:
                    self._gradients(optimizer)

    def after_step(self, optimizer: Optimizer) -> None:
        """The optimizer has stepped: the window ends."""
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        if self._audited:
            with self._timed():
                if self._window["closure"]:
                    self._gradients(optimizer)
                self._end_window(optimizer)
        self._steps += 1
        self._since += 1
        self._open = False
        self._audited = False
        self._local.clear()
        self._adapt()

    def scaled(self, scale: float) -> None:
        """A GradScaler is about to step with this scale."""
        self._scale = scale

    def close(self) -> None:
        """The process is about to end."""
        self._close_evaluation()
        self._batches.close()
        if self._models:
            self._write_table("last", self._parameters(), changed_only=False)
        self._journal.write(
            "end", steps=self._steps, forwards=self.forwards, open=self._open, interval=self._interval,
            spent=self._spent, seconds=time.perf_counter() - self._start, models=len(self._models),
        )  # fmt: skip

    def _begin_window(self) -> None:
        if self._open:
            return
        self._open = True
        self._depth = 0
        self._close_evaluation()
        clock = self.forwards + self._since
        self._audited = clock >= self._due
        self._window = {"wrapped": 0, "inner": 0, "synchronised": None, "batch": 0, "closure": False}
        if self._audited:
            with self._timed():
                self._due = (clock // self._interval + 1) * self._interval
                self._hook_gradients()
                self._window["weights"] = self._weights("weights")

    def _hook_gradients(self, more: Iterable[Tensor] = ()) -> None:
        for model in self._models.values():
            for parameter in (*model.module.parameters(), *more):
                if parameter.requires_grad and id(parameter) not in self._hooked:
                    parameter.register_post_accumulate_grad_hook(self._journal.observing(self.accumulated))
                    self._hooked[id(parameter)] = parameter  # kept, so that its id is never another's

    def _parameters(self, optimizer: Optimizer | None = None) -> dict[str, Tensor]:
        """Every parameter by name: of the wrapped models, then those that only the optimizer knows."""
        named: dict[str, Tensor] = {}
        for model in self._models.values():
            for name, parameter in model.module.named_parameters():
                if not is_sharded(parameter):
                    named[model.prefix + name] = parameter
        known = {id(parameter) for parameter in named.values()}
        if optimizer is not None:
            for place, group in enumerate(optimizer.param_groups):
                for number, parameter in enumerate(group["params"]):
                    if id(parameter) not in known and not is_sharded(parameter):
                        named[f"param_groups[{place}]['params'][{number}]"] = parameter
        return named

    def _weights(self, phase: str, optimizer: Optimizer | None = None) -> str:
        return self._write_table(phase, self._parameters(optimizer))

    def _write_table(self, phase: str, named: dict[str, Tensor], *, changed_only: bool = True) -> str:
        """Write the fingerprints and some values of `named` as a table of `phase`; returns what stands for its content."""
        table = digests(list(named.values()), self._method)
        key = combined(table, "\n".join(named).encode()).hex()
        if changed_only and self._last.get("weights") == key:
            return key
        self._last["weights"] = key
        names = list(named)
        self._journal.write(
            "table", phase=phase, key=key, names=None if names == self._names else names, digests=_hex(table),
            samples=_samples(list(named.values())), shapes=[list(tensor.shape) for tensor in named.values()],
        )  # fmt: skip
        self._names = names
        return key

    def _buffers(self) -> dict[str, str]:
        named = {
            model.prefix + name: buffer
            for model in self._models.values()
            for name, buffer in model.module.named_buffers()
            if not is_sharded(buffer)
        }
        return self._by_name(named)

    def _state(self, optimizer: Optimizer) -> dict[str, str] | None:
        if "ZeroRedundancy" in type(optimizer).__name__:
            return None  # each rank holds another part of it on purpose
        model = next(iter(self._models.values()), None)
        return self._by_name(dict(optimizer_state(model.module if model else None, optimizer)))

    def _gradients(self, optimizer: Optimizer) -> None:
        owners = {name: p for name, p in self._parameters(optimizer).items() if p.grad is not None}
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        owners = {name: p for name, p in owners.items() if id(p) in stepped}
        self._window["gradients"] = self._by_name({name: p.grad for name, p in owners.items() if p.grad is not None})
        reduced = [projection(p.grad) for p in owners.values() if p.grad is not None]
        local = [self._local.get(id(p)) for p in owners.values()]
        counts = [0 if pair is None else pair[0] for pair in local]
        values = _floats([*reduced, *(pair[1] for pair in local if pair is not None)])
        mine = iter(values[len(reduced) :])
        self._window["projected"] = values[: len(reduced)]
        self._window["local"] = [next(mine) if count else None for count in counts]
        self._window["counts"] = counts
        self._window["managed"] = [self._standing(name, p) for name, p in owners.items()]

    def _standing(self, name: str, parameter: Tensor) -> str:
        """What DDP makes of a parameter: `reduced`, or why it does not reduce it."""
        for model in self._models.values():
            if id(parameter) in model.reduced:
                return "reduced"
            if name.startswith(model.prefix) and not name.startswith("param_groups["):
                if id(parameter) in model.names:
                    return "unfrozen" if name in model.frozen_names else "ignored"
                return "replaced" if name in model.names.values() else "added"
        return "outside" if self._models else "no model"

    def _end_window(self, optimizer: Optimizer) -> None:
        window = self._window
        window["after"] = self._weights("after", optimizer)
        epoch = self._batches.current
        self._journal.write(
            "step", step=self._steps, forwards=self.forwards, since=self._since, scale=self._scale,
            position=None if epoch is None else [epoch.loader, epoch.number, epoch.batches],
            optimizer=type(optimizer).__name__, **window,
        )  # fmt: skip
        self._hook_gradients(p for group in optimizer.param_groups for p in group["params"])

    def _evaluating(self, inputs: Any) -> None:  # noqa: ANN401
        if self._evaluation is None:
            self._evaluation = {
                "batches": 0,
                "samples": 0,
                "input": "",
                "since": self._collectives(),
                "line": user_line(),
            }
        found = self._evaluation
        found["batches"] += 1
        first = next(_tensors(inputs), None)
        if first is not None and first.dim():
            found["samples"] += first.shape[0]
        if found["batches"] <= SAMPLED:
            with self._timed():
                found["input"] += self._digest(_tensors(inputs))

    def _close_evaluation(self) -> None:
        found, self._evaluation = self._evaluation, None
        if found is not None:
            collectives = self._collectives() - found.pop("since")
            self._journal.write("evaluation", step=self._steps, collectives=collectives, **found)

    def _by_name(self, named: dict[str, Tensor]) -> dict[str, str]:
        table = _hex(digests(list(named.values()), self._method))
        return {name: table[16 * place : 16 * place + 16] for place, name in enumerate(named)}

    def _digest(self, tensors: Iterable[Tensor]) -> str:
        return combined(digests(list(tensors), self._method)).hex()[:16]

    def _timed(self) -> _Timed:
        return _Timed(self)

    def spend(self, seconds: float) -> None:
        """Count what an audit cost."""
        self._spent += seconds

    def _adapt(self) -> None:
        """Audit more rarely where audits cost too much; intervals are powers of two, so that ranks share audited steps."""
        if self._every:
            return
        allowed = FIRST_SECONDS + SHARE * (time.perf_counter() - self._start)
        if self._spent > allowed and self._interval < SPARSEST:
            self._interval *= 2
        elif self._spent < allowed / 2 and self._interval > 1:
            self._interval //= 2


class _Hook:
    """A hook on the user's module that leaves no trace of ours in a pickle or a copy of it: there it is `{}.get`.

    A pre-hook is called as hook(module, args), and `{}.get(module, args)` gives the arguments back as they are.
    """

    def __init__(self, function: Callable[[nn.Module, Any], None]) -> None:
        self._function = function

    def __call__(self, module: nn.Module, args: Any) -> None:  # noqa: ANN401
        if not torch.compiler.is_compiling():
            self._function(module, args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, ({}, "get")


class _Timed:
    """Counts the time inside it as cost of an audit; autocast must not touch what is computed there."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._guard = torch.no_grad()
        self._cast = torch.autocast("cpu", enabled=False)

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        self._guard.__enter__()
        self._cast.__enter__()

    def __exit__(self, *error: object) -> None:
        self._cast.__exit__(*error)
        self._guard.__exit__(*error)
        self._steps.spend(time.perf_counter() - self._began)


def structure_listing(model: nn.Module) -> list[Any]:
    """Role, name, structure and tie of each parameter and buffer."""
    return [(item.role, item.name, item.structure, item.tied_to) for item in inventory(model)]


def _tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:  # noqa: ANN401 - whatever a forward takes
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth - 1)


def _settings(optimizer: Optimizer) -> dict[str, str]:
    """Every option of every parameter group, as text."""
    found = {}
    for place, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if name != "params":
                plain = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
                found[f"{name}[{place}]" if len(optimizer.param_groups) > 1 else name] = repr(plain)
    return found


def _hex(table: Tensor) -> str:
    """The first half of each fingerprint, 16 digits each."""
    return table[:, 0].contiguous().numpy().astype(">i8").tobytes().hex()


def _floats(numbers: Sequence[Tensor]) -> list[str]:
    """Exact texts of tensors of no dimension, fetched from each device at once."""
    by_device: dict[torch.device, list[int]] = {}
    for place, number in enumerate(numbers):
        by_device.setdefault(number.device, []).append(place)
    texts = [""] * len(numbers)
    for places in by_device.values():
        fetched = torch.stack([numbers[place].double() for place in places]).tolist()
        for place, value in zip(places, fetched, strict=True):
            texts[place] = value.hex() if math.isfinite(value) else repr(value)
    return texts


def _samples(tensors: Sequence[Tensor]) -> list[list[Any]]:
    """Of each tensor [place in row-major order, value] of some evenly spread elements; none of tensors on a GPU."""
    found: list[list[Any]] = []
    for tensor in tensors:
        count = tensor.numel()
        if not count or tensor.is_cuda or tensor.is_complex() or tensor.layout is not torch.strided:
            found.append([])
            continue
        places = sorted({count * place // SAMPLED for place in range(SAMPLED)})
        values = tensor.detach().reshape(-1)[torch.tensor(places)].tolist()
        found.append([[place, repr(value)] for place, value in zip(places, values, strict=True)])
    return found
