"""What is seen of backwards: `loss.backward()`, `torch.autograd.grad`, and collectives that average gradients."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..trace_writer import user_line
from .counted_windows import CountedWindows
from .training_window import TrainingWindow


class BackwardObserver:
    """Follows gradients from the loss to the optimizer's step."""

    def __init__(self, window: TrainingWindow, counted: CountedWindows) -> None:
        self._window, self._counted = window, counted
        self._replica, self._observers, self._audit = window.replica, window.observers, window.audit

    def given(self, loss: Tensor) -> None:
        """`loss.backward()` was called, in whatever step."""
        if not self._window.is_elsewhere():
            self._observers.first_lost_loss.look_at(loss, self._replica.counts.steps)

    def begins(self) -> None:
        """`loss.backward()` was called."""
        if self._window.is_elsewhere():
            return
        observers = self._observers
        observers.evaluation_forwards.backward()
        if observers.is_replay:
            observers.close_up.settle()
        if not self._window.is_open:
            if self._replica.models.count:
                self._window.backward_at = user_line()
            else:  # the user averages gradients in some other way
                self._window.begin()
        self._counted.backward()
        observers.gradient_groups.backward()

    def over(self, loss: Tensor) -> None:
        """`loss.backward()` has returned: what gradients become until the step is the user's doing."""
        if self._window.is_elsewhere():
            return
        observers = self._observers
        observers.gradient_groups.backward_over()
        if self._window.is_audited:
            with self._replica.budget:
                self._audit.after_backward(loss)
        if observers.is_replay:
            observers.close_up.after_backward()
        elif self._window.is_audited:
            observers.write_watch.after_backward()

    def grad(self) -> None:
        """`torch.autograd.grad` was called."""
        if self._window.is_elsewhere():
            return
        self._counted.backward()
        if self._window.is_audited:
            self._audit.step.backward = self._audit.step.backward._replace(grad=user_line())

    def reduced(self, name: str, sent: Any, members: tuple[int, ...] | None) -> None:  # noqa: ANN401
        """The user's code or a library's has called the collective `name` with `sent`, on these ranks or on all (None)."""
        observers = self._observers
        if observers.averaging.reduced(name, sent, members):
            observers.end.forget()
        if self._window.is_audited:
            observers.gradient_groups.reduced(name, sent, members or ())
