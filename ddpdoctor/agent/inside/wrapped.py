"""The models under DistributedDataParallel, as they were when they were wrapped, and what has become of them since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from .inventory import unwrapped
from .journal import user_line
from .mesh import is_meshed


class Wrapped:
    """One wrapped model. `reduced` holds the ids of the parameters whose gradients DDP reduces.

    `bypassed` is the user's line that called the module and not its wrapper, where nothing called the wrapper since the last
    step with its gradients.
    """

    def __init__(self, ddp: nn.Module, prefix: str) -> None:
        self.module = unwrapped(ddp)
        self.prefix = prefix
        ignored = set(getattr(ddp, "parameters_to_ignore", ()))
        self._names = {id(p): prefix + name for name, p in self.module.named_parameters()}
        self._frozen = {prefix + name for name, p in self.module.named_parameters() if not p.requires_grad}
        self.reduced = {id(p) for name, p in self.module.named_parameters() if p.requires_grad and name not in ignored}
        self.bypassed: tuple[str, int, str] | None = None
        self._wrapper_called = False
        self._stepped = False

    def forward(self, *, wrapper: bool) -> None:
        """Its wrapper's forward begins, or its own."""
        if self._stepped:
            self._stepped = self._wrapper_called = False
            self.bypassed = None
        self._wrapper_called |= wrapper
        self.bypassed = None if self._wrapper_called else user_line()

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer` has stepped."""
        first = [group["params"][0] for group in optimizer.param_groups if group["params"]]
        self._stepped |= any(id(parameter) in self._names for parameter in first)

    def standing(self, name: str, parameter: Tensor) -> str | None:
        """`reduced`, or why DDP does not reduce the parameter that is called `name` here; None where it is not of this model."""
        if id(parameter) in self.reduced:
            return "reduced"
        if name.startswith("param_groups[") or not name.startswith(self.prefix):
            return None
        if id(parameter) in self._names:
            return "unfrozen" if name in self._frozen else "ignored"
        return "replaced" if name in self._names.values() else "added"

    def buffers(self) -> dict[str, Tensor]:
        """Every buffer by name."""
        named = self.module.named_buffers()
        return {self.prefix + name: buffer for name, buffer in named if not is_meshed(buffer)}


class Models:
    """All wrapped models of a rank, in the order in which they were wrapped."""

    def __init__(self) -> None:
        self._models: dict[int, Wrapped] = {}

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Iterator[Wrapped]:
        return iter(self._models.values())

    def of(self, module: nn.Module) -> Wrapped | None:
        """The model that `module` is, or wraps."""
        return self._models.get(id(unwrapped(module)))

    def add(self, ddp: Any) -> tuple[Wrapped, bool]:  # noqa: ANN401
        """Remember a wrapped model as it is now, and say whether it was wrapped before: then it keeps its prefix."""
        before = self._models.get(id(unwrapped(ddp)))
        number = len(self._models)
        prefix = before.prefix if before is not None else f"model{number + 1}:" if number else ""
        model = self._models[id(unwrapped(ddp))] = Wrapped(ddp, prefix)
        return model, before is not None

    def parameters(self, optimizer: Optimizer | None = None) -> dict[str, Tensor]:
        """Every parameter by name: of the wrapped models, then those that only the optimizer knows; no sharded ones."""
        named: dict[str, Tensor] = {}
        for model in self:
            for name, parameter in model.module.named_parameters():
                if not is_meshed(parameter):
                    named[model.prefix + name] = parameter
        known = {id(parameter) for parameter in named.values()}
        for place, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
            for number, parameter in enumerate(group["params"]):
                if id(parameter) not in known and not is_meshed(parameter):
                    named[f"param_groups[{place}]['params'][{number}]"] = parameter
        return named

    def standing(self, name: str, parameter: Tensor) -> str:
        """What DDP makes of a parameter: `reduced`, or why it does not reduce it."""
        found = next((said for model in self if (said := model.standing(name, parameter)) is not None), None)
        return found or ("outside" if self._models else "no model")
