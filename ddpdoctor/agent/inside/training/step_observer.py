"""What is seen of optimizer steps: those that are made, those of peers, and those that a GradScaler leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.optim import Optimizer

from ..schema.step_records import Overflow
from ..tensors.dtensor import is_meshed
from ..trace_writer import user_line
from .forward_observer import ForwardObserver
from .optimizer_settings import parameters_of
from .part_calls import PartCalls
from .pre_hooks import PreHooks
from .training_window import TrainingWindow


class StepObserver:
    """Closes windows; on audited ones it writes down what the step got and what it made of it."""

    def __init__(self, window: TrainingWindow, forwards: ForwardObserver) -> None:
        self._window, self._forwards = window, forwards
        self._replica, self._observers, self._audit = window.replica, window.observers, window.audit
        self._parts = PartCalls(window)
        self.pre_hooks = PreHooks(window.replica.trace, self._steps)

    def before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """An optimizer is about to step, or to call what the job has hooked before its step."""
        if self._window.concerns(optimizer) and not self.pre_hooks.are_left(optimizer):
            self._steps(optimizer, args, kwargs)

    def _steps(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """An optimizer is about to step: gradients are reduced, clipped and unscaled."""
        window, observers, replica = self._window, self._observers, self._replica
        closure = bool(kwargs.get("closure") or any(map(callable, args[1:2])))
        if not window.depth:
            self._enter(optimizer, closure=closure)
        window.depth += 1
        if window.depth > 1:
            return
        if observers.unwaited.pending:
            stepped = (p for p in parameters_of(optimizer) if not is_meshed(p))
            observers.unwaited.used((tensor for p in stepped for tensor in (p, p.grad) if tensor is not None), "step")
        if observers.is_replay:
            observers.close_up.optimizer_steps(optimizer)
        if window.is_audited:
            self._audit.step.closure = closure
            with replica.budget, replica.models.held():
                self._audit.before_step(optimizer)
                observers.recomputation.before_step(optimizer, closure=closure)

    def _enter(self, optimizer: Optimizer, *, closure: bool) -> None:
        """The outermost optimizer is about to step; a closure makes the forward and the backward inside the step."""
        window, observers = self._window, self._observers
        if observers.evaluation_forwards.with_backward:
            self._forwards.trained_in_evaluation()
        in_window = window.is_open and window.forwards > 0
        window.steps_wrapped = in_window or self._replica.models.are_stepped_by(optimizer)
        if observers.write_watch.is_on:
            observers.write_watch.settle()
        if observers.is_replay:
            observers.close_up.settle()
        if not window.is_open:
            again, backward_at = (
                self._replica.counts.stepped_since_forward and not window.had_backward,
                window.backward_at,
            )
            window.begin(same_gradients=again and not closure)
            if window.is_audited and backward_at is not None:
                self._audit.step.backward = self._audit.step.backward._replace(backward=backward_at)
                if window.steps_wrapped:
                    with self._replica.budget:
                        self._parts.follow()

    def after(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401
        """The optimizer has stepped: the window ends."""
        window, observers, replica = self._window, self._observers, self._replica
        if not window.concerns(optimizer):
            return
        window.depth = max(0, window.depth - 1)
        if window.depth:
            return
        audited, counted = window.is_audited, window.steps_wrapped
        if audited:
            with replica.budget, replica.models.held(), replica.trace.together:
                self._audit.after_step(optimizer, counted=counted)
        replica.models.step(optimizer)
        observers.end.made(optimizer)
        replica.settings.stepped(optimizer)
        replica.counts.step(counted=counted)
        if counted:
            replica.steps_by_optimizer.step(optimizer, replica.counts.steps - 1)
        observers.averaging.stepped(counted=counted)
        observers.gradient_groups.stepped()
        window.end()
        if audited:
            observers.end.stepped(self._audit.step.after)

    def shadowed(self, *, stepped: bool) -> None:
        """Inside `Join`, without data of its own, this rank took part in a forward of its peers, and perhaps in their step."""
        self._replica.counts.shadow(stepped=stepped)

    @contextmanager
    def of_peers(self) -> Iterator[None]:
        """Inside, this rank makes no steps of its own: its optimizer takes part in those of its peers."""
        self._window.in_peers_step = True
        try:
            yield
        finally:
            self._window.in_peers_step = False

    def scaled(self, scale: float | None) -> None:
        """A GradScaler is about to step with this scale; None where it is switched off."""
        if not self._window.is_elsewhere():
            self._audit.scale = scale

    def overflowed(self, optimizer: Optimizer) -> None:
        """A GradScaler has found gradients that are not finite, and left the step of `optimizer` out."""
        window, replica = self._window, self._replica
        if not window.concerns(optimizer):
            return
        self._observers.averaging.stepped(counted=False)
        replica.trace.write(Overflow(replica.counts.steps, replica.counts.forwards, self._audit.scale, user_line()))
        if not window.is_open:  # a fused optimizer has called its hooks
            return
        counted = window.steps_wrapped = window.forwards > 0 or replica.models.are_stepped_by(optimizer)
        if window.is_audited:
            with replica.budget:
                self._audit.before_step(optimizer)
                self._audit.after_step(optimizer, counted=counted, left_out=True)
        replica.counts.left_out(counted=counted)
        window.end()
