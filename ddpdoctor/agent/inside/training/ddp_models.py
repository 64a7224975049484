"""The models under DistributedDataParallel, as they were when they were wrapped, and what has become of them since.

Those that are in training are kept; earlier ones, of a fold or a trial that is over, live as long as the user lets them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from ..schema.source_line import SourceLine
from ..schema.step_records import Evaluating
from ..tensors.dtensor import is_meshed
from ..tensors.module_listing import Listing, same
from ..tensors.named_tensors import unwrapped
from ..trace_writer import user_line
from .forward_hook import ForwardHook
from .mode_changes import ModeChanges
from .optimizer_settings import parameters_of
from .training_modes import TrainingModes


def broadcasts_buffers(ddp: Any) -> bool:  # noqa: ANN401
    """Whether the wrapper copies rank 0's buffers to all ranks before each forward in training."""
    name = "forward_sync_buffers" if hasattr(ddp, "forward_sync_buffers") else "broadcast_buffers"  # from torch 2.13 on
    return bool(getattr(ddp, name, True))


def members(ddp: Any) -> list[int] | None:  # noqa: ANN401
    """The global ranks among which the wrapper reduces gradients; None where these are all ranks."""
    group = getattr(ddp, "process_group", None)
    ranks = dist.get_process_group_ranks(group) if group is not None else []
    return sorted(ranks) if 0 < len(ranks) < dist.get_world_size() else None


class WrappedModel:
    """One wrapped model. `reduced` holds the ids of the parameters whose gradients DDP reduces.

    `bypassed` is the user's line that called the module and not its wrapper, where nothing called the wrapper since the last
    step with its gradients. `skips_broadcast` is whether its wrapper makes other forwards begin with equal buffers, and not this
    one: it is called without the wrapper, or after a forward through the wrapper that nothing was to be reduced of.
    """

    def __init__(self, ddp: nn.Module, prefix: str, changes: ModeChanges | None = None) -> None:
        module = unwrapped(ddp)
        self._kept: nn.Module | None = module
        self._listing = Listing("parameters", prefix)
        self._buffer_listing = Listing("buffers", prefix)
        self._listed_buffers: dict[str, Tensor] = {}
        self._buffers: dict[str, Tensor] = {}
        self._module = weakref.ref(module)
        self.prefix = prefix
        ignored = set(getattr(ddp, "parameters_to_ignore", ()))
        self.broadcasts_buffers = broadcasts_buffers(ddp)
        self.ignored_buffers = [prefix + name for name, _ in module.named_buffers() if name in ignored]
        self._names = {id(p): prefix + name for name, p in module.named_parameters()}
        self._frozen = {prefix + name for name, p in module.named_parameters() if not p.requires_grad}
        self.reduced = {id(p) for name, p in module.named_parameters() if p.requires_grad and name not in ignored}
        self.bypassed: SourceLine | None = None
        self.skips_broadcast = False
        self._broadcasts: bool | None = (
            None  # in the forward of the wrapper that is under way; None before its first one
        )
        self._wrapper_called = False
        self._stepped = False
        self._modes = TrainingModes(changes)
        self.hook: ForwardHook | None = None
        """The agent's hook before its own forward."""
        self._is_held = False  # while the job does not run
        self._held: dict[str, nn.Parameter] | None = None  # the parameters, once they were asked for meanwhile

    @property
    def module(self) -> nn.Module | None:
        """The user's module; None where it is gone."""
        return self._module()

    @property
    def leaves_buffers_to_ranks(self) -> bool:
        """Whether some of its buffers are not made equal before each forward."""
        return not self.broadcasts_buffers or bool(self.ignored_buffers)

    @property
    def in_training(self) -> bool:
        """Whether it is kept, and compared."""
        return self._kept is not None

    def let_go(self) -> None:
        """Other models are trained from here on."""
        self._kept = None
        self._modes.forget()
        self._listing.forget()
        self._buffer_listing.forget()
        self._listed_buffers, self._buffers = {}, {}

    def wrapper_forward(self, *, broadcasts: bool) -> None:
        """Its wrapper's forward begins in training, and copies rank 0's buffers to all ranks first or does not."""
        self._broadcasts = broadcasts
        self._kept = self._module()
        self._stepped, self._wrapper_called = False, True
        self.bypassed = None

    def forward(self) -> None:
        """Its own forward begins in training, called by its wrapper or by the user."""
        self.skips_broadcast = self._broadcasts is False
        self._broadcasts = None if self._broadcasts is None else False
        self._kept = self._module()
        if self._stepped:
            self._stepped = self._wrapper_called = False
        self.bypassed = None if self._wrapper_called else user_line()

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer` has stepped."""
        if self._stepped or self._kept is None:
            return
        for group in optimizer.param_groups:
            if group["params"] and id(group["params"][0]) in self._names:
                self._stepped = True
                return

    def standing(self, name: str, parameter: Tensor) -> str | None:
        """`reduced`, or why DDP does not reduce the parameter that is called `name` here; None where it is not of this model."""
        if id(parameter) in self.reduced:
            return "reduced"
        if name.startswith("param_groups[") or not name.startswith(self.prefix):
            return None
        if id(parameter) in self._names:
            return "unfrozen" if name in self._frozen else "ignored"
        return "replaced" if name in self._names.values() else "added"

    def parameters(self) -> dict[str, nn.Parameter]:
        """Every parameter by name; the same dict for as long as the module has the same ones."""
        if self._kept is None:
            return {}
        if self._held is not None:
            return self._held
        listed = self._listing.of(self._kept)
        if self._is_held:
            self._held = listed
        return listed

    def hold(self) -> None:
        """Walk through the module once at most until `release`."""
        self._is_held = True

    def release(self) -> None:
        """The job goes on, and may change the module."""
        self._is_held, self._held = False, None

    def evaluating(self) -> Evaluating | None:
        """What of it is in evaluation mode; None where nothing is."""
        return self._modes.of(self._kept, self.parameters()) if self._kept is not None else None

    def buffers(self) -> dict[str, Tensor]:
        """Every buffer by name that lies on no device mesh; the same dict for as long as the module has the same ones."""
        listed = self._buffer_listing.of(self._kept) if self._kept is not None else {}
        if listed is not self._listed_buffers:
            self._listed_buffers = listed
            self._buffers = {name: buffer for name, buffer in listed.items() if not is_meshed(buffer)}
        return self._buffers


class Models:
    """All wrapped models of a rank in the order in which they were wrapped; those that are in training are iterated over."""

    def __init__(self) -> None:
        self._models: dict[int, WrappedModel] = {}
        self._found: dict[int, tuple[weakref.ref[nn.Module], WrappedModel]] = {}  # by wrapper or module
        self._steppers: WeakSet[Optimizer] = WeakSet()
        self._named = _NamedParameters()
        self._named_with: WeakKeyDictionary[Optimizer, _NamedParameters] = WeakKeyDictionary()
        self._held: dict[int, dict[str, Tensor]] | None = None  # by the optimizer's id, while the job does not run
        self.count = 0
        self.mode_changes = ModeChanges()
        """The user's lines that put modules into evaluation mode."""
        self.wraps = 0
        """How often a model was wrapped: with it change the parameters that DDP reduces."""

    def __iter__(self) -> Iterator[WrappedModel]:
        return iter([model for model in self._models.values() if model._kept is not None])  # noqa: SLF001 - asked for often

    def of(self, module: nn.Module) -> WrappedModel | None:
        """The model that `module` is, or wraps."""
        found = self._found.get(id(module))
        if found is not None and found[0]() is module:
            return found[1]
        inner = unwrapped(module)
        model = self._models.get(id(inner))
        if model is None or model.module is not inner:
            return None
        self._found[id(module)] = weakref.ref(module), model
        return model

    def have(self, module: nn.Module) -> bool:
        """Whether `module` is one of them, wraps one, or is a part of one that is in training."""
        if self.of(module) is not None:
            return True
        first = next(module.parameters(), None)
        return first is not None and any(first is one for model in self for one in model.parameters().values())

    def let_go(self) -> None:
        """Other models are trained from here on: forget those that are gone, and keep none of the others."""
        for model in self:
            model.let_go()
        self._models = {key: model for key, model in self._models.items() if model.module is not None}
        self._found.clear()
        self._named = _NamedParameters()
        self._named_with.clear()

    def add(self, ddp: Any) -> bool:  # noqa: ANN401
        """Remember a wrapped model as it is now, and return whether it was wrapped before: then it keeps its prefix."""
        before = self.of(ddp)
        self.wraps += 1
        if before is None:
            self.count += 1
        prefix = before.prefix if before is not None else f"model{self.count}:" if self.count > 1 else ""
        model = self._models[id(unwrapped(ddp))] = WrappedModel(ddp, prefix, self.mode_changes)
        model.hook = before.hook if before is not None else None
        self._found.clear()
        return before is not None

    def are_stepped_by(self, optimizer: Optimizer) -> bool:
        """Whether `optimizer` has a parameter of a wrapped model; of no other than these, where nothing is wrapped."""
        if self.count and optimizer not in self._steppers:
            stepped = set(map(id, parameters_of(optimizer)))
            modules = (model.module for model in self._models.values())
            own = (parameter for module in modules if module is not None for parameter in module.parameters())
            if not any(id(parameter) in stepped for parameter in own):
                return False
            self._steppers.add(optimizer)
        return True

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer` has stepped."""
        for model in self._models.values():
            model.step(optimizer)

    def parameters(self, optimizer: Optimizer | None = None) -> dict[str, Tensor]:
        """Every parameter by name: of the wrapped models, then those that only the optimizer knows; no sharded ones.

        The same dict is returned for as long as it holds, and must not be changed.
        """
        if self._held is None:
            return self._together(optimizer)
        found = self._held.get(id(optimizer))
        if found is None:
            found = self._held[id(optimizer)] = self._together(optimizer)
        return found

    def _together(self, optimizer: Optimizer | None) -> dict[str, Tensor]:
        known = self._named if optimizer is None else self._named_with.setdefault(optimizer, _NamedParameters())
        return known.of([model.parameters() for model in self], optimizer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, each model is walked through once, and each optimizer's groups: nothing of the job runs.

        Blocks may be nested.
        """
        if self._held is not None:
            yield
            return
        models = [*self]
        for model in models:
            model.hold()
        self._held = {}
        try:
            yield
        finally:
            self._held = None
            for model in models:
                model.release()

    def standing(self, name: str, parameter: Tensor) -> str:
        """What DDP makes of a parameter: `reduced`, or why it does not reduce it."""
        standings = (model.standing(name, parameter) for model in self)
        found = next((standing for standing in standings if standing is not None), None)
        return found or ("outside" if self.count else "no model")


class _NamedParameters:
    """The parameters of some models and an optimizer, brought together again only where one of them has changed."""

    def __init__(self) -> None:
        self._models: list[dict[str, nn.Parameter]] = []
        self._stepped: list[Tensor] = []
        self._named: dict[str, Tensor] = {}

    def of(self, models: list[dict[str, nn.Parameter]], optimizer: Optimizer | None) -> dict[str, Tensor]:
        groups = optimizer.param_groups if optimizer is not None else ()
        stepped: list[Tensor] = [*chain.from_iterable(group["params"] for group in groups)]
        if not (self._named and same(models, self._models) and same(stepped, self._stepped)):
            self._models, self._stepped = models, stepped
            own = chain.from_iterable(model.items() for model in models)
            self._named = {name: parameter for name, parameter in own if not is_meshed(parameter)}
            known = {id(parameter) for parameter in self._named.values()}
            for place, group in enumerate(groups):
                for number, parameter in enumerate(group["params"]):
                    if id(parameter) not in known and not is_meshed(parameter):
                        self._named[f"param_groups[{place}]['params'][{number}]"] = parameter
        return self._named
