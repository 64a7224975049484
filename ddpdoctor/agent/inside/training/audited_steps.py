"""What one rank records of a step that is audited: digests of weights, gradients, state and settings, before and after."""

from __future__ import annotations

import socket

from torch import Tensor, nn
from torch.optim import Optimizer

from ..schema.model_records import ModelListing, TensorRow
from ..schema.step_records import Backward, Step, Stepping
from ..schema.training_trace import VERSION, Joined
from ..tensors.dtensor import is_meshed
from ..tensors.named_tensors import inventory
from ..trace_writer import user_line
from .ddp_models import WrappedModel
from .observers import Observers
from .optimizer_settings import parameters_of
from .replica import Replica
from .rng_state import is_read_at, random_state
from .step_window import StepWindow


class AuditedSteps:
    """Writes down a step from its first forward to its end; each method reads what is known at one moment of it."""

    def __init__(self, replica: Replica, observers: Observers) -> None:
        self._replica, self._observers = replica, observers
        self.step = StepWindow()
        """What is known of the step that is audited now, or that was audited last."""
        self.scale: float | None = None
        """The scale of the GradScaler that stepped last; None where there is none, or it is switched off."""

    def begin(self) -> None:
        """The rank has joined: say who writes."""
        trace, replica = self._replica.trace, self._replica
        host, method = socket.gethostname(), replica.digests.method
        every, is_replay = replica.budget.every, self._observers.is_replay
        trace.write(Joined(VERSION, trace.rank.number, host, method, every, replay=is_replay))

    def wrapping(self, module: nn.Module) -> None:
        """A model is about to be wrapped."""
        self._replica.trace.write(
            ModelListing([
                TensorRow(item.role, item.name, tied_to=item.tied_to, **item.structure) for item in inventory(module)
            ])
        )  # fmt: skip

    def before_forward(self, *, same_gradients: bool) -> None:
        """The first forward of the step begins; with `same_gradients` another optimizer steps after the same backward."""
        replica, observers = self._replica, self._observers
        self.step = step = StepWindow(self.step.backward if same_gradients else Backward())
        replica.trace.roll()
        observers.write_watch.audit()
        with replica.budget, replica.models.held():
            step.averaging = observers.averaging.state
            if is_read_at(replica.counts.steps):
                step.random = random_state()
            if not replica.models.count:
                observers.gradients.know(p for one in replica.optimizers() for p in parameters_of(one))
            observers.gradients.follow(same_gradients=same_gradients)
            step.weights = replica.digests.write("weights", replica.models.parameters(self._only_optimizer()))
            observers.integrity.begin(step.weights, replica.counts.steps)

    def modes_of(self, model: WrappedModel | None) -> None:
        """A forward of `model` begins: which of its modules are in evaluation mode."""
        if model is not None and (found := model.evaluating()) is not None:
            self.step.evaluating[model.prefix] = found

    def after_backward(self, loss: Tensor) -> None:
        """`loss.backward()` has returned."""
        step = self.step
        if loss.numel() == 1 and not is_meshed(loss):
            step.backward = step.backward._replace(backward=user_line(), loss=float(loss.detach()))
        if step.backward.synchronised:
            self._observers.integrity.after_backward()

    def before_step(self, optimizer: Optimizer) -> None:
        """`optimizer` is about to step."""
        replica, observers, step = self._replica, self._observers, self.step
        settings, setting_lines = replica.settings.now(optimizer)
        step.stepping = Stepping(
            optimizer=type(optimizer).__name__,
            line=user_line(),
            settings=settings,
            setting_lines=setting_lines,
            loaded=replica.settings.loaded(optimizer),
            state=replica.state.record(optimizer),
            parts=observers.shards.of(optimizer),
            state_parts=observers.shards.of_state(optimizer),
        )
        if step.stepping.parts and not replica.models.count:
            step.buffers, step.buffer_writes = observers.shards.of_buffers()
        observers.integrity.before_step(optimizer, look=observers.write_watch.is_due or observers.looks_closest())
        if not step.closure:
            step.gradients = observers.gradients.read(optimizer, observers.origins)

    def after_step(self, optimizer: Optimizer, *, counted: bool, left_out: bool = False) -> None:
        """`optimizer` has stepped, or its step was left out; `counted` where it steps a wrapped model."""
        replica, observers, step = self._replica, self._observers, self.step
        beside = replica.counts.beside(counted=counted)
        partly_watched = self._is_partly_watched()  # before the lines are taken
        if step.closure:
            step.gradients = observers.gradients.read(optimizer, observers.origins)
        step.after = replica.digests.write("after", replica.models.parameters(optimizer))
        replica.trace.write(self._record(optimizer, beside=beside, left_out=left_out, partly_watched=partly_watched))
        if not replica.models.count:
            return
        observers.integrity.write(replica.counts, beside, step.after, left_out=left_out)
        if not left_out:
            observers.recomputation.after_step(optimizer, replica.counts, beside)
            observers.unwrapped.write(beside)

    def _record(self, optimizer: Optimizer, *, beside: int, left_out: bool, partly_watched: bool) -> Step:
        counts, models, observers, step = self._replica.counts, self._replica.models, self._observers, self.step
        assert step.stepping is not None
        lost = observers.first_lost_loss
        lost.read()
        return Step(
            step=counts.steps,
            forwards=counts.forwards,
            since=counts.since,
            beside=beside,
            shadowed=counts.shadowed,
            backward=step.backward._replace(lost_at=lost.step, lost_line=lost.line),
            position=observers.batches.position,
            scale=self.scale,
            stepping=step.stepping,
            gradients=step.gradients,
            buffers=step.buffers,
            weights=step.weights,
            after=step.after,
            parts=observers.shards.of(optimizer),
            random_before=step.random,
            random_after=random_state() if step.random else {},
            bypassed={model.prefix: model.bypassed for model in models if model.bypassed is not None},
            comm_hook=observers.origins.comm_hook,
            averaging=step.averaging,
            writes={**observers.write_watch.take(), **observers.close_up.take()},
            left_out=left_out,
            closure=step.closure,
            hook_of_torch=observers.origins.hook_of_torch,
            partly_watched=partly_watched,
            evaluating=step.evaluating or None,
            buffer_writes=step.buffer_writes,
            reduced_among=None if models.count else observers.gradient_groups.members,
            state_parts=observers.shards.of_state(optimizer),
            exchanged=observers.gradient_groups.exchanged,
        )

    def _is_partly_watched(self) -> bool:
        """Whether lines were looked for in this step, and some that wrote may not have been seen."""
        observers = self._observers
        watch = observers.write_watch
        return not observers.is_replay and watch.is_due and (watch.is_partial or not observers.weights.are_read)

    def _only_optimizer(self) -> Optimizer | None:
        """What names the weights that the job averages, where it has wrapped no model."""
        replica = self._replica
        optimizers = replica.optimizers() if self._observers.averaging.count and not replica.models.count else []
        return optimizers[0] if len(optimizers) == 1 else None
