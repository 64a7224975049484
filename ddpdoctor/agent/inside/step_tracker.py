"""What one rank sees of its own training, step by step: digests of weights, gradients, state and settings.

A window runs from the first forward after a step to the end of the next step. On audited windows every phase leaves its
fingerprints; on the others only counters move, in as few operations as possible: each is paid at every step of the job.
Nothing here communicates, and nothing changes a bit of the user's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .async_work import Unwaited
from .audited_steps import AuditedSteps
from .batch_inputs import are_finite, samples_in
from .close_up import CloseUp
from .dataloader_hooks import Batches
from .ddp_models import WrappedModel, members
from .double_wrap import DoubleWraps
from .dtensor import is_meshed
from .end_of_training import EndOfTraining
from .evaluation import EvaluationLog
from .evaluation_forwards import EvaluationForwards
from .forward_hook import ForwardHook
from .job_modes import function_modes
from .optimizer_settings import parameters_of
from .overhead_budget import Budget
from .probe import ProbeLog, device_name
from .schema.final_records import End
from .schema.hardware_records import Device
from .schema.model_records import BufferBroadcasts, Wrapped
from .schema.source_line import SourceLine
from .schema.step_records import Overflow
from .step_counts import StepsByOptimizer
from .tensor_digests import tensors_in
from .trace_writer import TraceWriter, user_line

SAMPLED = 16  # windows that are not audited, of which the observers of one are timed


class StepTracker(AuditedSteps):
    """The story of one rank's training, kept up by hooks and written down at audited steps."""

    def __init__(
        self,
        trace: TraceWriter,
        batches: Batches,
        budget: Budget,
        collectives: Callable[[], int],
        close_up: CloseUp,
        probe_every: int = 0,
        recompute: bool = False,
    ) -> None:
        super().__init__(trace, batches, budget, collectives, close_up, recompute=recompute)
        self._evaluation = EvaluationLog(trace, budget, self._digests, collectives)
        self._in_evaluation = EvaluationForwards()
        self._double_wraps = DoubleWraps(trace)
        self._probe = ProbeLog(trace, self._digests, probe_every)
        self._by_optimizer = StepsByOptimizer(self.settings)
        self._end = EndOfTraining(
            trace, budget, self._digests, self._models, self._counts, self._state, self.averaging,
            lambda: self.settings.optimizers,
        )  # fmt: skip
        self.pass_over = batches.on_end = self._end.pass_over
        self.unwaited = Unwaited(trace, lambda: self._counts.steps)
        self.mode_changes = self._models.mode_changes
        self._skipping: ForwardHook | None = None  # of the module whose forward follows that of its wrapper
        self._wrapped_forwards = 0  # in this window
        self._open = False
        self._was_audited = True  # the window before
        self._windows = 0  # that were not audited, counted to `SAMPLED`
        self._stands_for = 1  # steps, of whose price this window is a sample
        self.looks_closely = True
        """Whether anything but a count may come of what the job does until its next step."""
        self._thread: int | None = None  # which trains the wrapped model, as far as that is known
        self._depth = 0  # of optimizers that call others
        self._had_backward = False  # since the last step
        self._peers_step = False
        self._steps_at_wrap = 0
        self._loaded: SourceLine | None = None  # where weights were loaded since the last step

    def wrapped(self, ddp: Any) -> None:  # noqa: ANN401
        """A model was wrapped."""
        if self._models.of(ddp) is None and self._counts.steps > self._steps_at_wrap:
            self._end.of_models()
            self._models.let_go()
        again = self._models.add(ddp)
        if self._models.count == 1 and not again:
            self._counts.restart()
            self._by_optimizer.forget()
            self._budget.restart()
        self._steps_at_wrap = self._counts.steps
        self._end.forget()
        self.origins.wrapped = True
        model = self._models.of(ddp)
        assert model is not None
        buffers = BufferBroadcasts(model.prefix, model.broadcasts_buffers, model.ignored_buffers)
        if again:
            self._trace.write(buffers)
            self._double_wraps.wrapped_again(user_line())
            return
        model.hook = ForwardHook(self._trace.observing(self.inner_forward))
        ddp.module.register_forward_pre_hook(model.hook, prepend=True, with_kwargs=True)
        self._trace.write(Wrapped(user_line(), members(ddp)))
        self._trace.write(buffers)
        if name := device_name(ddp.module):
            self._trace.write(Device(name))
        self._digests.write("start", self._models.parameters(), always=True)
        self._integrity.model_wrapped()
        self._close_up.after_wrap()

    def counts_forward(self, ddp: Any, _inputs: Sequence[Any]) -> bool:  # noqa: ANN401
        """Count a training forward of the wrapper that was called last, in a window that is not audited.

        Returns False where anything else is to be done, and once in `SAMPLED` windows, whose price stands for that of the others.
        """
        hook, counts = self._skipping, self._counts
        if hook is None or not ddp.training or self._thread != get_ident() or not torch.is_grad_enabled():
            return False
        if self._open:
            if self._audited or self._stands_for > 1:
                return False
        else:
            if (
                counts.forwards + counts.since >= self._budget.due
                or self._budget.follows_audit
                or not self._steps_wrapped
            ):
                return False
            self._windows = (self._windows + 1) % SAMPLED
            if not self._windows:
                self._stands_for = SAMPLED
                return False
        model = self._models.of(ddp)
        if model is None or model.hook is not hook or self._is_anything_pending():
            return False
        if not self._open:
            self._open, self.looks_closely = True, False
            self._depth = self._wrapped_forwards = 0
        self._wrapped_forwards += 1
        hook.skips_next = True
        model.wrapper_forward(broadcasts=False)
        counts.forward()
        self._batches.trained()
        return True

    def _is_anything_pending(self) -> bool:
        """Whether something that the job did makes more of a forward than a count."""
        return bool(
            self._is_replay
            or self._write_watch.is_on
            or self.unwaited.pending
            or self._in_evaluation.are_there
            or self.averaging.count
            or self._evaluation.current is not None
            or self._double_wraps.line is not None
        )

    def outer_forward(self, ddp: Any, inputs: Sequence[Any]) -> None:  # noqa: ANN401
        """The wrapper's forward begins."""
        if self._write_watch.is_on:
            self._write_watch.settle()
        if self._is_replay:
            self._close_up.settle()
        if self.unwaited.pending:
            self.unwaited.used((p for p in ddp.parameters() if not is_meshed(p)), "forward")
        if self._skipping is not None:
            self._skipping.skips_next = False
        if not torch.is_grad_enabled():
            return
        if not (ddp.training or ddp.module.training):  # Lightning leaves the wrapper alone in evaluation mode
            self._in_evaluation.forward(ddp, samples_in([*tensors_in(inputs)]), user_line())
            return
        if self._in_evaluation.are_there:
            self._in_evaluation.trains_otherwise()
        model = self._forward_of(ddp)
        if not self._audited:
            if model is not None and model.hook is not None and not self._probe.every:
                self._skipping = model.hook
                self._skipping.skips_next = True
            return
        before = self._window.backward
        self._window.backward = before._replace(
            wrapped=before.wrapped + 1,
            synchronised=bool(ddp.require_backward_grad_sync),
        )
        with self._budget:
            self._look_at_modes(model)
            tensors = [*tensors_in(inputs)]
            self._window.backward = self._window.backward._replace(
                batch=before.batch + samples_in(tensors),
                forward=user_line(),
                load=self._loaded,
                finite=before.finite and are_finite(tensors),
                input=self._digests.of_inputs(inputs, tensors) if before.input is None else before.input,
            )

    def _forward_of(self, ddp: Any) -> WrappedModel | None:  # noqa: ANN401
        """Count a forward of this wrapper, and return its model."""
        if not self._open:
            self._begin_window()
        self._thread = get_ident()
        model = self._models.of(ddp)
        if model is not None:
            if self._double_wraps.line is not None:
                self._double_wraps.forward(ddp)
            model.wrapper_forward(broadcasts=self._audited and ddp.require_forward_param_sync)
        self._counts.forward()
        self._batches.trained()
        self._wrapped_forwards += 1
        return model

    def _train_in_evaluation(self) -> None:
        """An optimizer steps after backwards that came from forwards in evaluation mode alone: these trained."""
        forwards = self._in_evaluation.take()
        if self._open and self._wrapped_forwards:
            return
        for ddp, samples, line in forwards:
            self._look_at_modes(self._forward_of(ddp))
            if self._audited:
                before = self._window.backward
                self._window.backward = before._replace(batch=before.batch + samples, forward=line)

    def inner_forward(self, module: nn.Module, inputs: Any) -> None:  # noqa: ANN401
        """The user's own module is about to run: the moment at which DDP has made its buffers equal, and no others'."""
        if self._probe.is_running:
            return
        if not module.training and not torch.is_grad_enabled():
            self._evaluation.forward(inputs)
        elif torch.is_grad_enabled() and module.training:
            if not self._open:
                self._begin_window()
            if (model := self._models.of(module)) is None:
                return
            model.forward()
            if self._probe.every:
                self._run_probe(module, inputs)
            if self._audited and model.prefix not in self._window.models_run:
                self._window.models_run.add(model.prefix)
                if model.skips_broadcast or not (buffers := model.buffers()):
                    return
                with self._budget:
                    self._window.buffers |= self._digests.by_name(buffers, "buffers")
                    self._integrity.forward(buffers, left_to_ranks=model.leaves_buffers_to_ranks)

    def _run_probe(self, module: nn.Module, inputs: Any) -> None:  # noqa: ANN401
        named = self._models.parameters()
        if not self._audited:  # else the window has begun a new segment where that was due
            self._trace.roll()
        with self._budget:
            self._probe.forward(
                module, inputs, lambda: self._digests.of(named.values()), self._counts.steps, self._counts.forwards
            )

    def _is_elsewhere(self) -> bool:
        """Whether this thread is not the one that trains the wrapped model: what it trains is something of its own."""
        return self._thread is not None and self._thread != get_ident()

    def _concerns(self, optimizer: Optimizer) -> bool:
        """Whether a step of `optimizer` belongs to the training that is followed."""
        if self._recomputation.is_running or self._peers_step:
            return False
        here = self._thread in {None, get_ident()}  # not by `_is_elsewhere`: steps without an audit come to this line
        return here or self._models.are_stepped_by(optimizer)

    def backward(self) -> None:
        """`loss.backward()` was called."""
        if self._is_elsewhere():
            return
        self._in_evaluation.backward()
        if self._is_replay:
            self._close_up.settle()
        if not (self._open or self._models.count):  # the user averages gradients in some other way
            self._begin_window()
        self.backward_passes()
        self._gradient_groups.backward()

    def backward_passes(self) -> None:
        """`loss.backward()` was called, in a window in which it is only counted."""
        if self._thread not in {None, get_ident()}:  # likewise
            return
        self._had_backward = True
        self.averaging.backward()

    def backward_over(self, loss: Tensor) -> None:
        """`loss.backward()` has returned: what gradients become until the step is the user's doing."""
        if self._is_elsewhere():
            return
        self._gradient_groups.backward_over()
        if self._audited:
            with self._budget:
                self._look_after_backward(loss)
        if self._is_replay:
            self._close_up.after_backward()
        elif self._audited:
            self._write_watch.after_backward()

    def grad(self) -> None:
        """`torch.autograd.grad` was called."""
        if self._is_elsewhere():
            return
        self.backward_passes()
        if self._audited:
            self._window.backward = self._window.backward._replace(grad=user_line())

    def counts_before_step(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> bool:  # noqa: ANN401
        """Note that an optimizer is about to step in a window that is not audited; returns whether that was all."""
        if (
            self.looks_closely
            or self._depth
            or not self._wrapped_forwards
            or self._stands_for > 1
            or self._thread != get_ident()
            or self._peers_step
            or self.unwaited.pending
            or self._write_watch.is_on
            or self._in_evaluation.with_backward
        ):
            return False
        self._steps_wrapped = True
        self._depth = 1
        return True

    def counts_after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> bool:  # noqa: ANN401
        """Count a step of an optimizer in a window that is not audited, where that is all that is to be done."""
        if (
            self.looks_closely
            or self._depth != 1
            or self._stands_for > 1
            or self._thread != get_ident()
            or self._peers_step
            or function_modes()
            or self._budget.follows_audit
            or self.settings.are_loaded
            or self._gradient_groups.are_due
            or not self._by_optimizer.counts(optimizer)  # last: it is counted then
        ):
            return False
        self._models.step(optimizer)
        self._end.made(optimizer)
        self._counts.step(counted=self._steps_wrapped)
        self.averaging.stepped(counted=self._steps_wrapped)
        self._steps_wrapped, self._loaded, self._had_backward = True, None, False
        self._depth, self._open, self._was_audited = 0, False, False
        self.looks_closely = True
        return True

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        """An optimizer is about to step: gradients are reduced, clipped and unscaled."""
        if not self._concerns(optimizer):
            return
        if not self._depth:
            if self._in_evaluation.with_backward:
                self._train_in_evaluation()
            in_window = self._open and self._wrapped_forwards > 0
            self._steps_wrapped = in_window or self._models.are_stepped_by(optimizer)
            if self._write_watch.is_on:
                self._write_watch.settle()
            if self._is_replay:
                self._close_up.settle()
            if not self._open:
                self._begin_window(same_gradients=self._counts.stepped_since_forward and not self._had_backward)
        self._depth += 1
        if self._depth > 1:
            return
        if self.unwaited.pending:
            stepped = (p for p in parameters_of(optimizer) if not is_meshed(p))
            self.unwaited.used((tensor for p in stepped for tensor in (p, p.grad) if tensor is not None), "step")
        if self._is_replay:
            self._close_up.optimizer_steps(optimizer)
        if self._audited:
            self._window.closure = bool(kwargs.get("closure") or any(map(callable, args[:1])))
            with self._budget, self._models.held():
                self._look_before_step(optimizer)
                self._recomputation.before_step(optimizer, closure=self._window.closure)

    def after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401
        """The optimizer has stepped: the window ends."""
        if not self._concerns(optimizer):
            return
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        audited = self._audited
        if audited:
            with self._budget, self._models.held(), self._trace.together:
                self._write_step(optimizer)
        self._models.step(optimizer)
        self._end.made(optimizer)
        self.settings.stepped(optimizer)
        self._counts.step(counted=self._steps_wrapped)
        if self._steps_wrapped:
            self._by_optimizer.step(optimizer, self._counts.steps - 1)
        self.averaging.stepped(counted=self._steps_wrapped)
        self._gradient_groups.stepped()
        self._end_window(audited=audited)
        if audited:
            self._end.stepped(self._window.after)

    def _end_window(self, *, audited: bool) -> None:
        """The step of the window was made, or left out."""
        self._steps_wrapped = True
        self._loaded = None
        self._open = False
        self._had_backward = False
        self._was_audited, self._audited = audited, False
        self.looks_closely = True
        self._budget.adapt(audited=audited, stands_for=self._stands_for)
        self._stands_for = 1
        if audited:
            self._gradients.forget()
        if self._is_replay:
            self._close_up.after_step()
        elif audited:
            self._write_watch.after_step()

    def leaves(self) -> None:
        """The rank leaves the process group."""
        if not self.waits:
            self._end.leaves()

    def loads(self, module: nn.Module) -> None:
        """A state dict is about to be loaded into a module."""
        if self._models.have(module):
            self._loaded = user_line()
            self._end.before_load()

    def shadowed(self, *, stepped: bool) -> None:
        """Inside `Join`, without data of its own, this rank took part in a forward of its peers, and perhaps in their step."""
        self._counts.shadow(stepped=stepped)

    @contextmanager
    def in_steps_of_peers(self) -> Iterator[None]:
        """Inside, this rank makes no steps of its own: its optimizer takes part in those of its peers."""
        self._peers_step = True
        try:
            yield
        finally:
            self._peers_step = False

    def scaled(self, scale: float | None) -> None:
        """A GradScaler is about to step with this scale; None where it is switched off."""
        if not self._is_elsewhere():
            self._scale = scale

    def overflowed(self, optimizer: Optimizer) -> None:
        """A GradScaler has found gradients that are not finite, and left the step of `optimizer` out."""
        if not self._concerns(optimizer):
            return
        self.averaging.stepped(counted=False)
        self._trace.write(Overflow(self._counts.steps, self._counts.forwards, self._scale, user_line()))
        if not self._open:  # a fused optimizer has called its hooks
            return
        audited = self._audited
        self._steps_wrapped = self._wrapped_forwards > 0 or self._models.are_stepped_by(optimizer)
        if audited:
            with self._budget:
                self._look_before_step(optimizer)
                self._write_step(optimizer, left_out=True)
        self._counts.left_out(counted=self._steps_wrapped)
        self._end_window(audited=audited)

    def reduced(self, name: str, sent: Any, members: tuple[int, ...] | None) -> None:  # noqa: ANN401
        """The user's code or a library's has called the collective `name` with `sent`, on these ranks or on all (None)."""
        if self.averaging.reduced(name, sent, everywhere=members is None):
            self._end.forget()
        if self._audited:
            self._gradient_groups.reduced(name, sent, members or ())

    def close(self) -> None:
        """The process is about to end."""
        self._close_up.settle()
        self._write_watch.settle()
        self._evaluation.over(self._counts.steps)
        self._batches.close()
        self.unwaited.tell_gone()
        with self._budget:
            self._unwrapped.close()
        self._end.of_process()
        counts = self._counts
        self._trace.write(
            End(
                counts.steps, counts.forwards, self._budget.interval, self._probe.never_ran, self._by_optimizer.each
            )
        )  # fmt: skip

    def _begin_window(self, *, same_gradients: bool = False) -> None:
        """Open a window where none is; with `same_gradients` for another optimizer's step after the same backward."""
        self._open = True
        self._depth = self._wrapped_forwards = 0
        if self._evaluation.current is not None:
            self._evaluation.over(self._counts.steps)
        if self._is_replay:
            self._close_up.window_begins()
        if self._double_wraps.line is not None:
            self._double_wraps.window_begins()
        of_the_same_audit = same_gradients or not self._steps_wrapped
        self._audited = self._was_audited if of_the_same_audit else self._is_due()
        self.looks_closely = self._audited or self._is_replay
        if self._audited:
            self._look_at_weights(same_gradients=same_gradients)

    def _is_due(self) -> bool:
        """Whether the budget allows to audit the window that begins: any, or one whose weights have just been averaged."""
        due = self._budget.take(self._counts.clock)
        averages = self.averaging.count
        return (averages > 0 and self.averaging.just_now and self._budget.take(averages, "averaging")) or due
