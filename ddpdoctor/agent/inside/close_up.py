"""What a replay looks for in a few steps: the lines that write, and all elements of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakSet

from torch.optim import Optimizer

from .ddp_models import Models
from .optimizer_settings import Settings
from .optimizer_state import OptimizerState
from .overhead_budget import Budget
from .schema.source_line import SourceLine
from .step_counts import StepCounts
from .tensor_digests import Digests
from .trace_writer import TraceWriter
from .write_tracer import Writes


@dataclass(frozen=True)
class CloseUp:
    """What a replay asks for."""

    steps: range = range(0)
    """The steps to look into."""
    tensor: str = ""
    """The parameter whose elements are all written down."""


class CloseUpWatch:
    """Watches weights, gradients, settings and state between forward, backward and step, in the steps of a replay."""

    def __init__(
        self,
        close_up: CloseUp,
        trace: TraceWriter,
        budget: Budget,
        digests: Digests,
        models: Models,
        settings: Settings,
        state: OptimizerState,
        counts: StepCounts,
    ) -> None:  # fmt: skip
        self._close_up, self._budget, self._digests, self._models = close_up, budget, digests, models
        self._settings, self._state, self._counts = settings, state, counts
        self._writes = Writes(trace.observing)
        self._optimizers: WeakSet[Optimizer] = WeakSet()

    def window_begins(self) -> None:
        """The forwards of another step begin."""
        self._digests.whole_tensor = self._close_up.tensor if self.is_asked_for() else ""

    def optimizer_steps(self, optimizer: Optimizer) -> None:
        """`optimizer` is one of those whose settings and state are watched from here on."""
        self._optimizers.add(optimizer)

    def after_wrap(self) -> None:
        """A model was wrapped: watch its weights."""
        if self.is_asked_for():
            self._writes.watch({"weights": self._weights})

    def after_backward(self) -> None:
        """`loss.backward()` has returned: watch what is made of the gradients."""
        if self.is_asked_for():
            watched = {"gradients": self._gradients, "given weights": self._weights}
            self._writes.watch({**watched, **self._settings_and_state()})

    def after_step(self) -> None:
        """An optimizer has stepped: watch the weights until the next forward."""
        if self.is_asked_for():
            self._writes.watch({"weights": self._weights, **self._settings_and_state()})

    def settle(self) -> None:
        """Forward, backward or step begins, which may write: watch no longer."""
        self._writes.settle()

    def take(self) -> dict[str, list[SourceLine]]:
        """The lines found since this was last asked, by what they wrote."""
        return self._writes.take()

    def is_asked_for(self) -> bool:
        """Whether the step that comes is one to look into."""
        return self._counts.steps in self._close_up.steps

    def _weights(self) -> str:
        with self._budget:
            return self._digests.of(self._models.parameters().values())

    def _gradients(self) -> str:
        with self._budget:
            gradients = (parameter.grad for parameter in self._models.parameters().values())
            return self._digests.of(gradient for gradient in gradients if gradient is not None)

    def _settings_and_state(self) -> dict[str, Callable[[], object]]:
        def state() -> object:
            with self._budget:
                return {id(optimizer): self._state.of(optimizer) for optimizer in self._optimizers}

        return {"settings": lambda: {id(one): self._settings.of(one) for one in self._optimizers}, "state": state}
