"""The gradients of a window: each parameter's own before DDP reduces it, and what the optimizer gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .budget import Budget
from .journal import Journal
from .mesh import is_meshed
from .origins import Origins
from .prints import Prints, exact
from .projection import projection
from .wrapped import Models


class Gradients:
    """Hooks on parameters that project each local gradient of a window; `read` says what became of them."""

    def __init__(self, journal: Journal, budget: Budget, prints: Prints, models: Models) -> None:
        self._observed = journal.observing(self._accumulated)
        self._budget, self._prints, self._models = budget, prints, models
        self._known: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
        self._hooks: list[RemovableHandle] = []
        self._local: dict[int, tuple[int, Tensor]] = {}

    def know(self, parameters: Iterable[Tensor]) -> None:
        """Follow these too from the next window on; sharded ones are left alone."""
        self._known.update((id(parameter), parameter) for parameter in parameters if not is_meshed(parameter))

    def follow(self, *, same: bool) -> None:
        """A window begins: hook the parameters of the wrapped models, and what else is known.

        With `same` its gradients are those of the window before, for another optimizer.
        """
        if not same:
            self._local.clear()
        self.know(parameter for model in self._models for _, parameter in model.parameters())
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._observed)
            for parameter in self._known.values()
            if parameter.requires_grad
        ]

    def forget(self) -> None:
        """The window is over; what was noted is kept for another optimizer that steps with the same gradients."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def read(self, optimizer: Optimizer, origins: Origins) -> dict[str, Any]:
        """The gradients that `optimizer` steps with: fingerprints, projections before and after, and DDP's part in them."""
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        owners = {
            name: (p, p.grad)
            for name, p in self._models.parameters(optimizer).items()
            if p.grad is not None and id(p) in stepped
        }
        local = [self._local.get(id(p)) for p, _ in owners.values()]
        values = exact(
            [*(projection(grad) for _, grad in owners.values()), *(pair[1] for pair in local if pair is not None)]
        )
        mine = iter(values[len(owners) :])
        standings = {name: self._models.standing(name, p) for name, (p, _) in owners.items()}
        return {
            "gradients": self._prints.by_name({name: grad for name, (_, grad) in owners.items()}),
            "projected": values[: len(owners)],
            "local": [None if pair is None else next(mine) for pair in local],
            "counts": [0 if pair is None else pair[0] for pair in local],
            "managed": list(standings.values()),
            "origins": {
                name: line
                for name, (p, _) in owners.items()
                if standings[name] != "reduced" and (line := origins.of(p, standings[name])) is not None
            },
        }

    def _accumulated(self, parameter: Tensor) -> None:
        """A local gradient is complete; DDP has not reduced it yet."""
        if parameter.grad is not None:
            with self._budget:
                count = self._local.get(id(parameter), (0,))[0]
                self._local[id(parameter)] = count + 1, projection(parameter.grad)
