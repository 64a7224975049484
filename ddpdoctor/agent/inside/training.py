"""What one rank sees of its own training, step by step: digests of weights, gradients, state and settings.

A window runs from the first forward after a step to the end of the next step. On audited windows every phase leaves its
fingerprints; on the others only counters move. Nothing here communicates, and nothing changes a bit of the user's tensors.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .batches import Batches
from .budget import Budget
from .evaluation import Evaluation
from .gradients import Gradients
from .inventory import inventory, optimizer_state, unwrapped
from .journal import Journal, user_line
from .mesh import is_meshed
from .origins import Origins
from .parts import Parts
from .prints import Prints, tensors_in
from .randomness import random_state
from .settings import Line, Settings
from .unwaited import Unwaited
from .wrapped import Models
from .writes import Writes

# what a window knows of the forward and the backward behind its gradients
BACKWARD = ("wrapped", "synchronised", "batch", "finite", "lines", "input", "loss")


@dataclass(frozen=True)
class Closely:
    """What a replay asks for: in `steps` the lines that write, and all elements of the parameter called `tensor`."""

    steps: range = range(0)
    tensor: str = ""


class Steps:
    """The story of one rank's training, kept up by hooks and written down at audited steps."""

    def __init__(
        self, journal: Journal, batches: Batches, every: int, collectives: Callable[[], int], closely: Closely
    ) -> None:
        self._journal = journal
        self._batches = batches
        self._every = every
        self._budget = Budget(journal, every)
        self._prints = Prints(journal)
        self._models = Models()
        self._gradients = Gradients(journal, self._budget, self._prints, self._models)
        self._parts = Parts(self._prints)
        self._evaluation = Evaluation(journal, self._budget, self._prints, collectives)
        self.origins = Origins(journal)
        self.unwaited = Unwaited(journal, lambda: self.made)
        self._writes = Writes(journal.observing)
        self._closely = closely
        self.settings = Settings()
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self.forwards = 0
        self.made = 0
        self._since = 0  # steps since the last wrapped forward
        self._beside = 0  # those since then of optimizers that step no wrapped model: a probe's, on one rank perhaps
        self._main = True  # whether this step is none of those
        self._depth = 0
        self._open = False
        self._audited, self._was_audited = False, True
        self._backward = False  # since the last step
        self._window: dict[str, Any] = {}
        self._made_at_wrap = 0
        self._ended: tuple[int, str] | None = None  # steps made, and the weights after them
        self._loaded: Line | None = None  # where weights were loaded since the last step
        self._run: set[str] = set()  # models whose forward this window has seen
        self._callers: dict[int, int] = {}  # by model, the wrapper that this window's forward went through
        self._wrapped_again: tuple[str, int, str] | None = None  # where a model was wrapped a second time
        self._scale: float | None = None
        self._shadowed = 0  # steps of its peers, inside Join

    def begin(self) -> None:
        """The rank has joined: say who writes."""
        rank = self._journal.rank
        self._journal.write(
            "rank", rank=rank.number, world_size=rank.world_size, host=socket.gethostname(), method=self._prints.method,
            every=self._every,
        )  # fmt: skip

    def wrapped(self, ddp: Any) -> None:  # noqa: ANN401
        """A model was wrapped."""
        if self._models.of(ddp) is None and self.made > self._made_at_wrap:
            self._left()
            self._models.let_go()
        model, again = self._models.add(ddp)
        if self._models.count == 1 and not again:  # what was stepped before, on one rank perhaps, is another story
            self.made = self._since = 0
            self._budget.restart()
        self._made_at_wrap, self._ended = self.made, None
        self.origins.wrapped = True
        if again:
            self._wrapped_again = user_line()
            return
        hook = _Hook(self._journal.observing(self.inner_forward))
        ddp.module.register_forward_pre_hook(hook, prepend=True, with_kwargs=True)
        self._journal.write(
            "wrap", line=user_line(), prefix=model.prefix, sharded=sum(map(is_meshed, ddp.module.parameters()))
        )
        self._prints.write("start", self._models.parameters(), always=True)
        if self.made in self._closely.steps:
            self._writes.watch({"weights": self._weights})

    def outer_forward(self, ddp: Any, inputs: Sequence[Any]) -> None:  # noqa: ANN401
        """The wrapper's forward begins."""
        self._writes.settle()
        self.unwaited.used((p for p in ddp.parameters() if not is_meshed(p)), "forward")
        if not (torch.is_grad_enabled() and ddp.training):
            return
        self._begin_window()
        if self._callers.setdefault(id(unwrapped(ddp)), id(ddp)) != id(ddp) and self._wrapped_again is not None:
            self._journal.write("wrapped-twice", line=self._wrapped_again)
            self._wrapped_again = None
        if (model := self._models.of(ddp)) is not None:
            model.forward(wrapper=True)
        self.forwards += 1
        self._since = self._beside = 0
        self._window["wrapped"] += 1
        self._window["synchronised"] = bool(ddp.require_backward_grad_sync)
        self._batches.trained()
        tensor = next(tensors_in(inputs), None)
        if tensor is not None and tensor.dim():
            self._window["batch"] += tensor.shape[0]
        if self._audited:
            with self._budget:
                self._window["lines"]["forward"] = user_line()
                self._window["lines"]["load"] = self._loaded
                self._window["finite"] &= _all_finite(inputs)
                if "input" not in self._window:
                    self._window["input"] = self._prints.of(tensors_in(inputs))

    def inner_forward(self, module: nn.Module, inputs: Any) -> None:  # noqa: ANN401
        """The user's own module is about to run: the moment at which DDP has made its buffers equal, and no others'."""
        if not module.training and not torch.is_grad_enabled():
            self._evaluation.forward(inputs)
        elif torch.is_grad_enabled() and module.training:
            self._begin_window()
            if (model := self._models.of(module)) is None:
                return
            model.forward(wrapper=False)
            if self._audited:
                with self._budget:
                    if model.prefix not in self._run:
                        self._run.add(model.prefix)
                        self._window["buffers"] |= self._prints.by_name(model.buffers())

    def backward(self, loss: Tensor) -> None:
        """`loss.backward()` was called."""
        self._writes.settle()
        if not self._models.count:  # the user averages gradients in some other way
            self._begin_window()
        self._backward = True
        if self._audited and loss.numel() == 1 and not is_meshed(loss):
            with self._budget:
                self._window["lines"]["backward"] = user_line()
                self._window["loss"] = repr(float(loss.detach()))

    def backward_over(self) -> None:
        """`loss.backward()` has returned: what gradients become until the step is the user's doing."""
        if self.made in self._closely.steps:
            self._writes.watch({"gradients": self._gradients_now, **self._beside_weights()})

    def grad(self) -> None:
        """`torch.autograd.grad` was called."""
        self._backward = True
        if self._audited:
            self._window["lines"]["grad"] = user_line()

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """An optimizer is about to step: gradients are reduced, clipped and unscaled."""
        if not self._depth:
            self._main = self._models.are_stepped_by(optimizer) or (self._open and self._window["wrapped"] > 0)
            self._writes.settle()
            self._begin_window(
                same_gradients=self._since + self._beside > 0 and self.forwards > 0 and not self._backward
            )
        self._depth += 1
        if self._depth > 1:
            return
        stepped = (p for p in _parameters_of(optimizer) if not is_meshed(p))
        self.unwaited.used((tensor for p in stepped for tensor in (p, p.grad) if tensor is not None), "step")
        self._optimizers.add(optimizer)
        self._window["closure"] = bool(kwargs.get("closure") or any(map(callable, args[:1])))
        if self._audited:
            with self._budget:
                self._window["line"] = user_line()
                self._window["settings"] = self.settings.of(optimizer)
                self._window["setting_lines"] = self.settings.lines(optimizer)
                self._window["loaded"] = self.settings.loaded(optimizer)
                self._window["state"] = self._state(optimizer)
                self._window["parts_before"] = self._parts.of(optimizer)
                if not self._window["closure"]:
                    self._window.update(self._gradients.read(optimizer, self.origins))

    def after_step(self, optimizer: Optimizer) -> None:
        """The optimizer has stepped: the window ends."""
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        if self._audited:
            with self._budget:
                if self._window["closure"]:
                    self._window.update(self._gradients.read(optimizer, self.origins))
                self._end_window(optimizer)
        for model in self._models:
            model.step(optimizer)
        self.settings.stepped(optimizer)
        self.made += self._main
        self._since += self._main
        self._beside = 0 if self._main else self._beside + 1
        self._main = True
        self._loaded = None
        self._open = False
        self._budget.adapt(audited=self._audited)
        self._was_audited, self._audited = self._audited, False
        self._backward = False
        self._gradients.forget()
        if "after" in self._window:
            self._ended = self.made, self._window["after"]
        if self.made in self._closely.steps:
            self._writes.watch({"weights": self._weights, **self._beside_weights()})

    def loads(self, module: nn.Module) -> None:
        """A state dict is about to be loaded: where training is over, its best weights for a test on one rank, say."""
        if self._models.of(module) is not None:
            self._loaded = user_line()
            with self._budget:
                self._ending()

    def shadowed(self, *, stepped: bool) -> None:
        """Inside `Join`, without data of its own, this rank took part in a forward of its peers, and perhaps in their step."""
        self.forwards += 1
        self.made += stepped
        self._shadowed += stepped
        self._since = int(stepped)

    def scaled(self, scale: float | None) -> None:
        """A GradScaler is about to step with this scale; None where it is switched off."""
        self._scale = scale

    def overflowed(self) -> None:
        """A GradScaler has found gradients that are not finite, and left the step out."""
        self._journal.write("overflow", step=self.made, forwards=self.forwards, scale=self._scale, line=user_line())

    def close(self) -> None:
        """The process is about to end."""
        self._writes.settle()
        self._evaluation.over(self.made)
        self._batches.close()
        self._left()
        self._journal.write(
            "end", steps=self.made, forwards=self.forwards, open=self._open, interval=self._budget.interval,
            spent=self._journal.spent, seconds=self._budget.seconds, models=self._models.count,
        )  # fmt: skip

    def _left(self) -> None:
        """Write down the weights with which the models end that are in training."""
        if self._models.count:
            step, key = self._ending()
            self._journal.write("left", step=step, key=key)

    def _ending(self) -> tuple[int, str]:
        """The number of steps, and the weights after the last of them."""
        if self._ended is None or self._ended[0] != self.made:
            self._ended = self.made, self._prints.write("last", self._models.parameters(), always=True)
        return self._ended

    def _begin_window(self, *, same_gradients: bool = False) -> None:
        """Open a window, unless one is; with `same_gradients` for another optimizer's step after the same backward."""
        if self._open:
            return
        self._open = True
        self._depth = 0
        self._evaluation.over(self.made)
        self._prints.closely = self._closely.tensor if self.made in self._closely.steps else ""
        self._audited = (
            self._was_audited if same_gradients or not self._main else self._budget.take(self.forwards + self._since)
        )
        backward = {name: self._window[name] for name in BACKWARD if name in self._window} if same_gradients else {}
        self._window = {
            "wrapped": 0, "synchronised": None, "batch": 0, "closure": False, "finite": True, "lines": {},
            "buffers": {}, **backward,
        }  # fmt: skip
        self._run.clear()
        self._callers.clear()
        if self._audited:
            with self._budget:
                self._window["random"] = [random_state()]
                if not self._models.count:
                    self._gradients.know(p for one in self.settings.optimizers for p in _parameters_of(one))
                self._gradients.follow(same=same_gradients)
                self._window["weights"] = self._prints.write("weights", self._models.parameters())

    def _end_window(self, optimizer: Optimizer) -> None:
        window = self._window
        window["after"] = self._prints.write("after", self._models.parameters(optimizer))
        window["parts"] = self._parts.of(optimizer)
        window["random"].append(random_state())
        window["lines"] = {what: line for what, line in window["lines"].items() if line is not None}
        self._journal.write(
            "step", step=self.made, forwards=self.forwards, since=self._since, beside=0 if self._main else self._beside + 1,
            shadowed=self._shadowed, scale=self._scale, position=self._batches.position,
            bypassed={model.prefix: model.bypassed for model in self._models if model.bypassed is not None},
            optimizer=type(optimizer).__name__, comm_hook=self.origins.comm_hook, writes=self._writes.take(), **window,
        )  # fmt: skip
        self._gradients.know(_parameters_of(optimizer))

    def _weights(self) -> str:
        with self._budget:
            return self._prints.of(self._models.parameters().values())

    def _gradients_now(self) -> str:
        with self._budget:
            gradients = (parameter.grad for parameter in self._models.parameters().values())
            return self._prints.of(gradient for gradient in gradients if gradient is not None)

    def _beside_weights(self) -> dict[str, Callable[[], object]]:
        def states() -> object:
            with self._budget:
                return {id(optimizer): self._state(optimizer) for optimizer in self._optimizers}

        return {"settings": lambda: {id(one): self.settings.of(one) for one in self._optimizers}, "state": states}

    def _state(self, optimizer: Optimizer) -> dict[str, str] | None:
        if "ZeroRedundancy" in type(optimizer).__name__:
            return None  # each rank holds another part of it on purpose
        model = next(iter(self._models), None)
        pairs = optimizer_state(model.module if model else None, optimizer)
        return self._prints.by_name({name: tensor for name, tensor in pairs if not is_meshed(tensor)})


class _Hook:
    """A hook on the user's module that leaves no trace of ours in a pickle or a copy of it: there it does nothing.

    A pre-hook is called as hook(module, args, kwargs), and `nullcontext().__exit__` takes any three things and returns None.
    """

    def __init__(self, function: Callable[[nn.Module, Any], None]) -> None:
        self._function = function

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        if not torch.compiler.is_compiling():
            self._function(module, [args, kwargs])

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


def structure_listing(model: nn.Module) -> list[Any]:
    """Role, name, structure and tie of each parameter and buffer."""
    return [(item.role, item.name, item.structure, item.tied_to) for item in inventory(model)]


def _parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    """What it steps."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _all_finite(inputs: Any) -> bool:  # noqa: ANN401
    floats = (tensor for tensor in tensors_in(inputs) if tensor.is_floating_point() and tensor.layout is torch.strided)
    return all(bool(torch.isfinite(tensor).all()) for tensor in floats)
