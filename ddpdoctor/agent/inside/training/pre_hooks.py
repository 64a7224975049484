"""The moment between the hooks that the job has put before an optimizer's step and the step: such hooks change gradients too."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any
from weakref import ref

from torch.optim import Optimizer
from torch.optim import optimizer as optimizers

from ..trace_writer import TraceWriter, never_compiled


class PreHooks:
    """Waits for the last hook that an optimizer calls before its step.

    PyTorch calls the hooks of all optimizers, ours among them, and then those of the one. The last of them is replaced until it
    has been called. No hook of ours is put behind it: PyTorch lets the last one, and no other, remove itself or add one.
    """

    def __init__(self, trace: TraceWriter, is_over: Callable[[Optimizer, Any, Any], None]) -> None:
        """`is_over` is called after the last hook, with what the step is called with."""
        self._is_over = is_over
        self._observed = trace.observing(self._over)
        self._put_back: Callable[[], None] = _nothing
        self.ours: int | None = None
        """The key of our own hook among those of all optimizers."""

    def are_left(self, optimizer: Optimizer) -> bool:
        """Whether hooks follow ours, which is called now: `is_over` is then called after them."""
        self.put_back()
        of_all: MutableMapping[int, Any] = optimizers._global_optimizer_pre_hooks  # noqa: SLF001 - no other way to them
        hooks: MutableMapping[int, Any] = optimizer._optimizer_step_pre_hooks or of_all  # noqa: SLF001
        key = next(reversed(hooks), None)
        if key is None or key == self.ours:
            return False
        hook, stepping, observed = hooks[key], ref(optimizer), self._observed

        def last(optimizer: Optimizer, args: Any, kwargs: Any) -> Any:  # noqa: ANN401
            changed = hook(optimizer, args, kwargs)
            if optimizer is stepping():
                given = changed if isinstance(changed, tuple) and len(changed) == 2 else (args, kwargs)
                observed(optimizer, *given)
            return changed

        def put_back() -> None:
            if hooks.get(key) is ours:
                hooks[key] = hook

        ours = hooks[key] = never_compiled(last)
        self._put_back = put_back
        return True

    def put_back(self) -> None:
        """Put back the hook that is replaced, if one is: it is not called where one before it raises."""
        put_back, self._put_back = self._put_back, _nothing
        put_back()

    def _over(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        self.put_back()
        self._is_over(optimizer, args, kwargs)


def _nothing() -> None:
    """No hook is replaced."""
