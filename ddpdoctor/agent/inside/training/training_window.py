"""The window of a rank's training: from the first forward after a step to the end of the next step, audited or counted."""

from __future__ import annotations

from threading import get_ident

from torch.optim import Optimizer

from ..schema.source_line import SourceLine
from .audited_steps import AuditedSteps
from .observers import Observers
from .replica import Replica


class TrainingWindow:
    """The window that is open, or how the last one ended. The observers of forwards, backwards and steps share it."""

    def __init__(self, replica: Replica, observers: Observers, audit: AuditedSteps) -> None:
        self.replica, self.observers, self.audit = replica, observers, audit
        self.is_open = False
        self.is_audited = False
        """Whether the window that is open is audited."""
        self.follows_audited = True
        """Whether the window before was audited."""
        self.looks_closely = True
        """Whether anything but a count may come of what the job does until its next step."""
        self.stands_for = 1
        """How many steps this one is a sample of, where the price of counting is measured."""
        self.forwards = 0
        """Forwards of wrapped models in this window."""
        self.had_backward = False
        """Whether there was a backward since the last step."""
        self.depth = 0
        """How many optimizers are in their step: some call others."""
        self.steps_wrapped = True
        """Whether the step of this window steps a wrapped model."""
        self.in_peers_step = False
        """Whether an optimizer of this rank takes part in a step of its peers, inside `Join`."""
        self.thread: int | None = None
        """The thread that trains the wrapped model, as far as that is known."""
        self.loaded_at: SourceLine | None = None
        """Where weights were loaded last since the last audited step."""
        self.backward_at: SourceLine | None = None
        """Where `loss.backward()` was called last while no window was open, and so no forward of a wrapped model was followed."""

    def is_elsewhere(self) -> bool:
        """Whether this thread is not the one that trains the wrapped model: what it trains is something of its own."""
        return self.thread is not None and self.thread != get_ident()

    def concerns(self, optimizer: Optimizer) -> bool:
        """Whether a step of `optimizer` belongs to the training that is followed."""
        if self.observers.recomputation.is_running or self.in_peers_step:
            return False
        here = self.thread in {None, get_ident()}  # not by `is_elsewhere`: steps without an audit come to this line
        return here or self.replica.models.are_stepped_by(optimizer)

    def begin(self, *, same_gradients: bool = False) -> None:
        """Open a window where none is; with `same_gradients` for another optimizer's step after the same backward."""
        observers = self.observers
        self.is_open = True
        self.depth = self.forwards = 0
        self.backward_at = None
        if observers.evaluation.current is not None:
            observers.evaluation.over(self.replica.counts.steps)
        if observers.is_replay:
            observers.close_up.window_begins()
        if observers.double_wraps.line is not None:
            observers.double_wraps.window_begins()
        of_the_same_audit = same_gradients or not self.steps_wrapped
        self.is_audited = self.follows_audited if of_the_same_audit else self._is_due()
        self.looks_closely = self.is_audited or observers.is_replay
        if self.is_audited:
            self.audit.before_forward(same_gradients=same_gradients)

    def end(self) -> None:
        """The step of the window was made, or left out."""
        observers, audited = self.observers, self.is_audited
        self.is_open = self.is_audited = self.had_backward = False
        self.steps_wrapped = self.looks_closely = True
        if audited:
            self.loaded_at = None
        self.follows_audited = audited
        self.replica.budget.adapt(audited=audited, stands_for=self.stands_for)
        self.stands_for = 1
        if audited:
            observers.gradients.forget()
        if observers.is_replay:
            observers.close_up.after_step()
        elif audited:
            observers.write_watch.after_step()

    def _is_due(self) -> bool:
        """Whether the budget allows to audit the window that begins: any, or one whose weights have just been averaged."""
        budget, averaging = self.replica.budget, self.observers.averaging
        due = budget.take(self.replica.counts.clock)
        return (averaging.count > 0 and averaging.just_now and budget.take(averaging.count, "averaging")) or due
