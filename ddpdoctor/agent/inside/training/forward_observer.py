"""What is seen of forwards: of the wrapper, and of the user's own module in it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any

import torch
from torch import nn

from ..data.batch_inputs import are_finite, samples_in
from ..tensors.dtensor import is_meshed
from ..tensors.tensor_digests import tensors_in
from ..trace_writer import user_line
from .counted_windows import CountedWindows
from .ddp_models import WrappedModel
from .training_window import TrainingWindow


class ForwardObserver:
    """Opens windows; on audited ones it writes down batches, modes and buffers."""

    def __init__(self, window: TrainingWindow, counted: CountedWindows) -> None:
        self._window, self._counted = window, counted
        self._replica, self._observers, self._audit = window.replica, window.observers, window.audit

    def outer(self, ddp: Any, inputs: Sequence[Any]) -> None:  # noqa: ANN401
        """The wrapper's forward begins."""
        self._settle(ddp)
        if not torch.is_grad_enabled():
            return
        in_evaluation = self._observers.evaluation_forwards
        if not (ddp.training or ddp.module.training):  # Lightning leaves the wrapper alone in evaluation mode
            in_evaluation.forward(ddp, samples_in([*tensors_in(inputs)]), user_line())
            return
        if in_evaluation.are_there:
            in_evaluation.trains_otherwise()
        with self._replica.models.held():
            model = self._forward_of(ddp)
            if self._window.is_audited:
                self._record(ddp, model, inputs)
                return
        if model is not None and model.hook is not None and not self._observers.probe.every:
            self._counted.skipping = model.hook
            model.hook.skips_next = True

    def inner(self, module: nn.Module, inputs: Any) -> None:  # noqa: ANN401
        """The user's own module is about to run: the moment at which DDP has made its buffers equal, and no others'."""
        observers = self._observers
        if observers.probe.is_running:
            return
        if not module.training and not torch.is_grad_enabled():
            observers.evaluation.forward(inputs)
        elif torch.is_grad_enabled() and module.training:
            if not self._window.is_open:
                self._window.begin()
            if (model := self._replica.models.of(module)) is None:
                return
            model.forward()
            if observers.probe.every:
                self._run_probe(module, inputs)
            if self._window.is_audited:
                self._record_buffers(model)

    def trained_in_evaluation(self) -> None:
        """An optimizer steps after backwards that came from forwards in evaluation mode alone: these trained."""
        forwards = self._observers.evaluation_forwards.take()
        if self._window.is_open and self._window.forwards:
            return
        for ddp, samples, line in forwards:
            model = self._forward_of(ddp)
            if self._window.is_audited:
                self._audit.modes_of(model)
                before = self._audit.step.backward
                self._audit.step.backward = before._replace(batch=before.batch + samples, forward=line)

    def _settle(self, ddp: Any) -> None:  # noqa: ANN401
        """The code between the step, or the backward, and this forward has run."""
        observers = self._observers
        if observers.write_watch.is_on:
            observers.write_watch.settle()
        if observers.is_replay:
            observers.close_up.settle()
        if observers.unwaited.pending:
            observers.unwaited.used((p for p in ddp.parameters() if not is_meshed(p)), "forward")
        if self._counted.skipping is not None:
            self._counted.skipping.skips_next = False

    def _forward_of(self, ddp: Any) -> WrappedModel | None:  # noqa: ANN401
        """Count a forward of this wrapper, and return its model."""
        window, observers = self._window, self._observers
        if not window.is_open:
            window.begin()
        window.thread = get_ident()
        model = self._replica.models.of(ddp)
        if model is not None:
            if observers.double_wraps.line is not None:
                observers.double_wraps.forward(ddp)
            model.wrapper_forward(broadcasts=window.is_audited and ddp.require_forward_param_sync)
        self._replica.counts.forward()
        observers.batches.trained()
        window.forwards += 1
        return model

    def _record(self, ddp: Any, model: WrappedModel | None, inputs: Sequence[Any]) -> None:  # noqa: ANN401
        step = self._audit.step
        before = step.backward
        step.backward = before._replace(
            wrapped=before.wrapped + 1,
            synchronised=bool(ddp.require_backward_grad_sync),
        )
        with self._replica.budget:
            self._audit.modes_of(model)
            tensors = [*tensors_in(inputs)]
            step.backward = step.backward._replace(
                batch=before.batch + samples_in(tensors),
                forward=user_line(),
                load=self._window.loaded_at,
                finite=before.finite and are_finite(tensors),
                input=self._replica.digests.of_inputs(inputs, tensors) if before.input is None else before.input,
            )

    def _record_buffers(self, model: WrappedModel) -> None:
        """The first forward of `model` in this window begins."""
        step = self._audit.step
        if model.prefix in step.models_run:
            return
        step.models_run.add(model.prefix)
        if model.skips_broadcast or not (buffers := model.buffers()):
            return
        with self._replica.budget:
            step.buffers |= self._replica.digests.by_name(buffers, "buffers")
            self._observers.integrity.forward(buffers, left_to_ranks=model.leaves_buffers_to_ranks)

    def _run_probe(self, module: nn.Module, inputs: Any) -> None:  # noqa: ANN401
        replica = self._replica
        named = replica.models.parameters()
        if not self._window.is_audited:  # else the window has begun a new segment where that was due
            replica.trace.roll()
        with replica.budget:
            self._observers.probe.forward(
                module,
                inputs,
                lambda: replica.digests.of(named.values()),
                replica.counts.steps,
                replica.counts.forwards,
            )
