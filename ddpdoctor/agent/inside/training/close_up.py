"""What a replay looks for in a few steps: the lines that write, and all elements of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

from torch.optim import Optimizer

from ..schema.source_line import SourceLine
from .ddp_models import WrappedModel
from .replica import Replica
from .write_tracer import Writes


class CloseUp(NamedTuple):
    """What a replay asks for."""

    steps: range = range(0)
    """The steps to look into."""
    tensor: str = ""
    """The parameter whose elements are all written down."""


class CloseUpWatch:
    """Watches weights, gradients, buffers, settings and state between forward, backward and step, in the steps of a replay."""

    def __init__(self, close_up: CloseUp, replica: Replica) -> None:
        self._close_up, self._replica = close_up, replica
        self._writes = Writes(replica.trace.observing)
        self._optimizers: WeakSet[Optimizer] = WeakSet()

    def window_begins(self) -> None:
        """The forwards of another step begin."""
        self._replica.digests.whole_tensor = self._close_up.tensor if self.is_asked_for() else ""

    def optimizer_steps(self, optimizer: Optimizer) -> None:
        """`optimizer` is one of those whose settings and state are watched from here on."""
        self._optimizers.add(optimizer)

    def after_wrap(self) -> None:
        """A model was wrapped: watch its weights."""
        if self.is_asked_for():
            self._writes.watch({"weights": self._weights, **self._buffers()})

    def after_backward(self) -> None:
        """`loss.backward()` has returned: watch what is made of the gradients."""
        if self.is_asked_for():
            watched = {"gradients": self._gradients, "given weights": self._weights}
            self._writes.watch({**watched, **self._settings_and_state()})

    def after_step(self) -> None:
        """An optimizer has stepped: watch the weights until the next forward."""
        if self.is_asked_for():
            self._writes.watch({"weights": self._weights, **self._buffers(), **self._settings_and_state()})

    def settle(self) -> None:
        """Forward, backward or step begins, which may write: watch no longer."""
        self._writes.settle()

    def take(self) -> dict[str, list[SourceLine]]:
        """The lines found since this was last asked, by what they wrote."""
        return self._writes.take()

    def is_asked_for(self) -> bool:
        """Whether the step that comes is one to look into."""
        return self._replica.counts.steps in self._close_up.steps

    def _weights(self) -> str:
        with self._replica.budget:
            return self._replica.digests.of(self._replica.models.parameters().values())

    def _gradients(self) -> str:
        with self._replica.budget:
            gradients = (parameter.grad for parameter in self._replica.models.parameters().values())
            return self._replica.digests.of(gradient for gradient in gradients if gradient is not None)

    def _buffers(self) -> dict[str, Callable[[], object]]:
        """Each buffer that a wrapper leaves to the ranks, as `buffer` and its name."""
        left = [model for model in self._replica.models if model.leaves_buffers_to_ranks]
        return {f"buffer {name}": partial(self._buffer, model, name) for model in left for name in model.buffers()}

    def _buffer(self, model: WrappedModel, name: str) -> str:
        with self._replica.budget:
            return self._replica.digests.of(one for own, one in model.buffers().items() if own == name)

    def _settings_and_state(self) -> dict[str, Callable[[], object]]:
        def state() -> object:
            with self._replica.budget:
                return {id(optimizer): self._replica.state.of(optimizer) for optimizer in self._optimizers}

        return {
            "settings": lambda: {id(one): self._replica.settings.of(one) for one in self._optimizers},
            "state": state,
        }
