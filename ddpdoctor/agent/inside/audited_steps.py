"""What one rank records of a step that is audited: digests of weights, gradients, state and settings, before and after."""

from __future__ import annotations

import socket
from collections.abc import Callable

from torch import Tensor, nn
from torch.optim import Optimizer

from .close_up import CloseUp, CloseUpWatch
from .dataloader_hooks import Batches
from .ddp_models import Models, WrappedModel
from .dtensor import is_meshed
from .gradient_groups import GradientGroups
from .gradients import GradientHooks
from .integrity import IntegrityLog
from .named_tensors import inventory
from .optimizer_settings import Settings, parameters_of
from .optimizer_state import OptimizerState
from .overhead_budget import Budget
from .parameter_origin import Origins
from .recompute import Recomputation
from .rng_state import is_read_at, random_state
from .schema.model_records import ModelListing, TensorRow
from .schema.step_records import Backward, Step, Stepping
from .schema.training_trace import VERSION, Joined
from .shard_digests import Parts
from .step_counts import StepCounts
from .step_window import StepWindow
from .tensor_digests import Digests
from .trace_writer import TraceWriter, user_line
from .trained_weights import TrainedWeights
from .unwrapped_models import UnwrappedLog
from .weight_averaging import WeightAveraging
from .write_watch import WriteWatch


class AuditedSteps:
    """The parts of a rank's training that are followed, and what is written of them at audited steps."""

    def __init__(
        self,
        trace: TraceWriter,
        batches: Batches,
        budget: Budget,
        collectives: Callable[[], int],
        close_up: CloseUp,
        *,
        recompute: bool,
    ) -> None:
        self._trace, self._batches, self._budget = trace, batches, budget
        self._counts = StepCounts()
        self._digests = Digests(trace)
        self._models = Models()
        self._gradients = GradientHooks(trace, self._budget, self._digests, self._models)
        self._parts = Parts(self._digests)
        self._state = OptimizerState(trace, self._digests, self._models)
        self.origins = Origins(trace)
        self.settings = Settings()
        self._weights = TrainedWeights(self._models, self._digests, lambda: self.settings.optimizers)
        self.averaging = WeightAveraging(self._weights.tensors)
        self._gradient_groups = GradientGroups(self._weights.tensors)
        self._close_up = CloseUpWatch(
            close_up, trace, self._budget, self._digests, self._models, self.settings, self._state, self._counts
        )
        self._is_replay = bool(close_up.steps)
        self._integrity = IntegrityLog(trace, self._digests, self._models)
        self._looks_closest: Callable[[], bool] = lambda: recompute or self._close_up.is_asked_for()
        self._recomputation = Recomputation(trace, self._digests, self._models, self._looks_closest, collectives)
        self._unwrapped = UnwrappedLog(
            trace, self._digests, self._models, self._counts, lambda: self.settings.optimizers
        )
        self._write_watch = WriteWatch(trace, self.settings, self._unwrapped, self._weights.now)
        self._window = StepWindow()
        self._audited = False  # the window that is open
        self._steps_wrapped = True  # whether the step of this window steps a wrapped model
        self._scale: float | None = None

    def begin(self) -> None:
        """The rank has joined: say who writes."""
        rank = self._trace.rank
        host, method = socket.gethostname(), self._digests.method
        self._trace.write(Joined(VERSION, rank.number, host, method, self._budget.every, replay=self._is_replay))

    def wrapping(self, module: nn.Module) -> None:
        """A model is about to be wrapped."""
        self._trace.write(
            ModelListing([
                TensorRow(item.role, item.name, tied_to=item.tied_to, **item.structure) for item in inventory(module)
            ])
        )  # fmt: skip

    def _look_at_weights(self, *, same_gradients: bool) -> None:
        """An audited window begins: what its step will find."""
        self._window = StepWindow(self._window.backward if same_gradients else Backward())
        self._trace.roll()
        self._write_watch.audit()
        with self._budget, self._models.held():
            self._window.averaging = self.averaging.state
            if is_read_at(self._counts.steps):
                self._window.random = random_state()
            if not self._models.count:
                self._gradients.know(p for one in self.settings.optimizers for p in parameters_of(one))
            self._gradients.follow(same_gradients=same_gradients)
            self._window.weights = self._digests.write("weights", self._models.parameters(self._only_optimizer()))
            self._integrity.begin(self._window.weights, self._counts.steps)

    def _look_at_modes(self, model: WrappedModel | None) -> None:
        if self._audited and model is not None and (found := model.evaluating()) is not None:
            self._window.evaluating[model.prefix] = found

    def _look_after_backward(self, loss: Tensor) -> None:
        if loss.numel() == 1 and not is_meshed(loss):
            self._window.backward = self._window.backward._replace(backward=user_line(), loss=float(loss.detach()))
        if self._window.backward.synchronised:
            self._integrity.after_backward()

    def _look_before_step(self, optimizer: Optimizer) -> None:
        window = self._window
        settings, setting_lines = self.settings.now(optimizer)
        window.stepping = Stepping(
            optimizer=type(optimizer).__name__,
            line=user_line(),
            settings=settings,
            setting_lines=setting_lines,
            loaded=self.settings.loaded(optimizer),
            state=self._state.record(optimizer),
            parts=self._parts.of(optimizer),
            state_parts=self._parts.of_state(optimizer),
        )
        if window.stepping.parts and not self._models.count:
            window.buffers, window.buffer_writes = self._parts.of_buffers()
        self._integrity.before_step(optimizer, look=self._write_watch.is_due or self._looks_closest())
        if not window.closure:
            window.gradients = self._gradients.read(optimizer, self.origins)

    def _write_step(self, optimizer: Optimizer, *, left_out: bool = False) -> None:
        window, counts = self._window, self._counts
        assert window.stepping is not None
        watch = self._write_watch
        partly_watched = (  # before `take` below
            not self._is_replay and watch.is_due and (watch.is_partial or not self._weights.are_read)
        )
        if window.closure:
            window.gradients = self._gradients.read(optimizer, self.origins)
        window.after = self._digests.write("after", self._models.parameters(optimizer))
        self._trace.write(
            Step(
                step=counts.steps,
                forwards=counts.forwards,
                since=counts.since,
                beside=counts.beside(counted=self._steps_wrapped),
                shadowed=counts.shadowed,
                backward=window.backward,
                position=self._batches.position,
                scale=self._scale,
                stepping=window.stepping,
                gradients=window.gradients,
                buffers=window.buffers,
                weights=window.weights,
                after=window.after,
                parts=self._parts.of(optimizer),
                random_before=window.random,
                random_after=random_state() if window.random else {},
                bypassed={model.prefix: model.bypassed for model in self._models if model.bypassed is not None},
                comm_hook=self.origins.comm_hook,
                averaging=window.averaging,
                writes={**self._write_watch.take(), **self._close_up.take()},
                left_out=left_out,
                closure=window.closure,
                hook_of_torch=self.origins.hook_of_torch,
                partly_watched=partly_watched,
                evaluating=window.evaluating or None,
                buffer_writes=window.buffer_writes,
                reduced_among=None if self._models.count else self._gradient_groups.members,
                state_parts=self._parts.of_state(optimizer),
                exchanged=self._gradient_groups.exchanged,
            )
        )
        if self._models.count:
            beside = counts.beside(counted=self._steps_wrapped)
            self._integrity.write(counts, beside, window.after, left_out=left_out)
            if left_out:
                return
            self._recomputation.after_step(optimizer, counts, beside)
            self._unwrapped.write(beside)

    def _only_optimizer(self) -> Optimizer | None:
        """What names the weights that the job averages, where it has wrapped no model."""
        optimizers = self.settings.optimizers if self.averaging.count and not self._models.count else []
        return optimizers[0] if len(optimizers) == 1 else None

    @property
    def waits(self) -> bool:
        """Whether reading the weights may have to wait for a device."""
        return any(tensor.device.type != "cpu" for tensor in self._weights.tensors())
