"""The gradients of a window: each parameter's own before DDP reduces it, and what the optimizer gets."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .ddp_models import Models
from .dtensor import is_meshed
from .gradient_projection import projection
from .overhead_budget import Budget
from .parameter_origin import Origins
from .schema.training_trace import Gradients
from .tensor_digests import Digests, numbers_of
from .trace_writer import TraceWriter


class GradientHooks:
    """Hooks on parameters that project each local gradient of a window; `read` returns what became of them."""

    def __init__(self, trace: TraceWriter, budget: Budget, digests: Digests, models: Models) -> None:
        self._observed = trace.observing(self._accumulated)
        self._budget, self._digests, self._models = budget, digests, models
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

    def read(self, optimizer: Optimizer, origins: Origins) -> Gradients:
        """The gradients that `optimizer` steps with: fingerprints, projections before and after, and DDP's part in them."""
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        owners = {
            name: (p, p.grad)
            for name, p in self._models.parameters(optimizer).items()
            if p.grad is not None and id(p) in stepped
        }
        local = [self._local.get(id(p)) for p, _ in owners.values()]
        values = numbers_of(
            [*(projection(grad) for _, grad in owners.values()), *(pair[1] for pair in local if pair is not None)]
        )
        local_values = iter(values[len(owners) :])
        standings = {name: self._models.standing(name, p) for name, (p, _) in owners.items()}
        return Gradients(
            names=list(owners),
            digests=self._digests.joined([grad for _, grad in owners.values()]),
            reduced=values[: len(owners)],
            local=[None if pair is None else next(local_values) for pair in local],
            counts=[0 if pair is None else pair[0] for pair in local],
            standings=list(standings.values()),
            origins={
                name: line
                for name, (p, _) in owners.items()
                if standings[name] != "reduced" and (line := origins.of(p, standings[name])) is not None
            },
        )

    def _accumulated(self, parameter: Tensor) -> None:
        """A local gradient is complete; DDP has not reduced it yet."""
        if parameter.grad is not None:
            with self._budget:
                count = self._local.get(id(parameter), (0,))[0]
                self._local[id(parameter)] = count + 1, projection(parameter.grad)
