"""What one rank sees of its own training, step by step: digests of weights, gradients, state and settings.

On audited windows every phase leaves its fingerprints; on the others only counters move, in as few operations as possible: each
is paid at every step of the job. Nothing here communicates, and nothing changes a bit of the user's tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ..data.dataloader_hooks import Batches
from ..overhead_budget import Budget
from ..schema.final_records import End
from ..schema.hardware_records import Device
from ..schema.model_records import BufferBroadcasts, Wrapped
from ..trace_writer import TraceWriter, user_line
from .audited_steps import AuditedSteps
from .backward_observer import BackwardObserver
from .counted_windows import CountedWindows
from .ddp_models import members
from .forward_hook import ForwardHook
from .forward_observer import ForwardObserver
from .observers import Observers, Requested
from .probe import device_name
from .replica import Replica
from .step_observer import StepObserver
from .training_window import TrainingWindow


class StepTracker:
    """All observers of one rank's training; it follows itself when models are wrapped and loaded, and when the training ends."""

    def __init__(
        self,
        trace: TraceWriter,
        batches: Batches,
        budget: Budget,
        collectives: Callable[[], int],
        requested: Requested,
    ) -> None:
        """`collectives` returns how many collectives the user's code has called so far."""
        self.replica = replica = Replica(trace, budget)
        self.observers = observers = Observers(replica, batches, collectives, requested)
        self.audit = AuditedSteps(replica, observers)
        self.window = TrainingWindow(replica, observers, self.audit)
        self.counted = CountedWindows(self.window)
        self.forwards = ForwardObserver(self.window, self.counted)
        self.backwards = BackwardObserver(self.window, self.counted)
        self.steps = StepObserver(self.window, self.forwards)
        batches.on_end = observers.end.pass_over
        self._steps_at_wrap = 0

    def wrapped(self, ddp: Any) -> None:  # noqa: ANN401
        """A model was wrapped."""
        replica, observers = self.replica, self.observers
        models, counts, trace = replica.models, replica.counts, replica.trace
        if models.of(ddp) is None and counts.steps > self._steps_at_wrap:
            observers.end.of_models()
            models.let_go()
        again = models.add(ddp)
        if models.count == 1 and not again:
            counts.restart()
            replica.steps_by_optimizer.forget()
            replica.budget.restart()
        self._steps_at_wrap = counts.steps
        observers.end.forget()
        observers.origins.wrapped = True
        model = models.of(ddp)
        assert model is not None
        buffers = BufferBroadcasts(model.prefix, model.broadcasts_buffers, model.ignored_buffers)
        if again:
            trace.write(buffers)
            observers.double_wraps.wrapped_again(user_line())
            return
        model.hook = ForwardHook(trace.observing(self.forwards.inner))
        ddp.module.register_forward_pre_hook(model.hook, prepend=True, with_kwargs=True)
        observers.origins.wrapped_at = line = user_line()
        trace.write(Wrapped(line, members(ddp)))
        trace.write(buffers)
        if name := device_name(ddp.module):
            trace.write(Device(name))
        replica.digests.write("start", models.parameters(), always=True)
        observers.integrity.model_wrapped()
        observers.close_up.after_wrap()

    def loads(self, module: nn.Module) -> None:
        """A state dict is about to be loaded into a module."""
        if self.replica.models.have(module):
            self.window.loaded_at = user_line()
            self.observers.end.before_load()

    @property
    def waits(self) -> bool:
        """Whether reading the weights may have to wait for a device."""
        return any(tensor.device.type != "cpu" for tensor in self.observers.weights.tensors())

    def leaves(self) -> None:
        """The rank leaves the process group."""
        if not self.waits:
            self.observers.end.leaves()

    def close(self) -> None:
        """The process is about to end."""
        replica, observers = self.replica, self.observers
        counts, budget = replica.counts, replica.budget
        self.steps.pre_hooks.put_back()
        observers.close_up.settle()
        observers.write_watch.settle()
        observers.evaluation.over(counts.steps)
        observers.batches.close()
        observers.unwaited.tell_gone()
        with budget:
            observers.unwrapped.close()
        observers.end.of_process()
        never_ran, by_optimizer = observers.probe.never_ran, replica.steps_by_optimizer.each
        replica.trace.write(End(counts.steps, counts.forwards, budget.interval, never_ran, by_optimizer))
