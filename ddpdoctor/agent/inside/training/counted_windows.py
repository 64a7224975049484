"""Windows that are not audited: forwards and steps are only counted, in as few operations as a rank's every step can bear."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any

import torch
from torch.optim import Optimizer

from ..job_modes import function_modes
from .forward_hook import ForwardHook
from .training_window import TrainingWindow

SAMPLED = 16  # windows that are not audited, of which the observers of one are timed


class CountedWindows:
    """Each method returns whether counting was all that was to be done; else the observer of the same event does it all."""

    def __init__(self, window: TrainingWindow) -> None:
        self._window, self._replica, self._observers = window, window.replica, window.observers
        self._windows = 0  # that were not audited, counted to `SAMPLED`
        self.skipping: ForwardHook | None = None
        """The hook of the module whose forward follows that of its wrapper."""

    def forward(self, ddp: Any, _inputs: Sequence[Any]) -> bool:  # noqa: ANN401
        """Count a training forward of the wrapper that was called last.

        Returns False also once in `SAMPLED` windows, whose price stands for that of the others.
        """
        hook, window, counts = self.skipping, self._window, self._replica.counts
        if hook is None or not ddp.training or window.thread != get_ident() or not torch.is_grad_enabled():
            return False
        if window.is_open:
            if window.is_audited or window.stands_for > 1:
                return False
        else:
            budget = self._replica.budget
            if counts.forwards + counts.since >= budget.due or budget.follows_audit or not window.steps_wrapped:
                return False
            self._windows = (self._windows + 1) % SAMPLED
            if not self._windows:
                window.stands_for = SAMPLED
                return False
        model = self._replica.models.of(ddp)
        if model is None or model.hook is not hook or self._is_anything_pending():
            return False
        if not window.is_open:
            window.is_open, window.looks_closely = True, False
            window.depth = window.forwards = 0
        window.forwards += 1
        hook.skips_next = True
        model.wrapper_forward(broadcasts=False)
        counts.forward()
        self._observers.batches.trained()
        return True

    def _is_anything_pending(self) -> bool:
        """Whether something that the job did makes more of a forward than a count."""
        observers = self._observers
        return bool(
            observers.is_replay
            or observers.write_watch.is_on
            or observers.unwaited.pending
            or observers.evaluation_forwards.are_there
            or observers.averaging.count
            or observers.evaluation.current is not None
            or observers.double_wraps.line is not None
        )

    def backward(self) -> None:
        """`loss.backward()` or `torch.autograd.grad` was called."""
        window = self._window
        if window.thread not in {None, get_ident()}:  # not by `is_elsewhere`: a call more for every step
            return
        window.had_backward = True
        self._observers.averaging.backward()

    def before_step(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> bool:  # noqa: ANN401
        """An optimizer is about to step."""
        window, observers = self._window, self._observers
        if (
            window.looks_closely
            or window.depth
            or not window.forwards
            or window.stands_for > 1
            or window.thread != get_ident()
            or window.in_peers_step
            or observers.unwaited.pending
            or observers.write_watch.is_on
            or observers.evaluation_forwards.with_backward
        ):
            return False
        window.steps_wrapped = True
        window.depth = 1
        return True

    def after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> bool:  # noqa: ANN401
        """Count a step of an optimizer."""
        window, observers, replica = self._window, self._observers, self._replica
        if (
            window.looks_closely
            or window.depth != 1
            or window.stands_for > 1
            or window.thread != get_ident()
            or window.in_peers_step
            or function_modes()
            or replica.budget.follows_audit
            or replica.settings.are_loaded
            or observers.gradient_groups.are_due
            or not replica.steps_by_optimizer.counts(optimizer)  # last: it is counted then
        ):
            return False
        replica.models.step(optimizer)
        observers.end.made(optimizer)
        replica.counts.step(counted=window.steps_wrapped)
        observers.averaging.stepped(counted=window.steps_wrapped)
        window.is_open = window.had_backward = window.follows_audited = False  # as `end`, without its call
        window.steps_wrapped = window.looks_closely = True
        window.depth = 0
        return True
