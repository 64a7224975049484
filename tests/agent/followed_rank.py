"""A rank of this process under a step tracker: what it writes down of a wrapper, without a process group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ddpdoctor.agent.inside.data.dataloader_hooks import Batches
from ddpdoctor.agent.inside.overhead_budget import Budget
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.training_trace import TraceRecord, segment_name
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training.observers import Requested
from ddpdoctor.agent.inside.training.step_tracker import StepTracker
from ddpdoctor.ranks.training_trace_files import read_trace


class Wrapper(DistributedDataParallel):
    """A DistributedDataParallel that reduces nothing."""

    def __init__(self, module: nn.Module) -> None:
        nn.Module.__init__(self)
        self.module = module
        self.require_backward_grad_sync = self.require_forward_param_sync = True

    def forward(self, batch: Tensor) -> Any:
        return self.module(batch)


class FollowedRank:
    """Rank 0 of a job, and its tracker, which audits every `every`th step."""

    def __init__(self, folder: Path, module: nn.Module, *, every: int = 1, requested: Requested | None = None) -> None:
        self.rank = Rank(str(folder))
        self.rank.place([], {"rank": 0, "world_size": 2})
        self.rank.joined(0, 2)
        self.trace = TraceWriter(self.rank)
        self.batches = Batches(self.trace)
        self.tracker = StepTracker(
            self.trace, self.batches, Budget(self.trace, every, 0.005), lambda: 0, requested or Requested()
        )
        self.tracker.audit.begin()
        self.model = Wrapper(module)
        self.tracker.audit.wrapping(module)
        self.tracker.wrapped(self.model)
        self.forward: Callable[[Tensor], Tensor] | None = None
        """What is called in place of the wrapper."""

    def step(self, optimizer: Optimizer, batch: Tensor) -> None:
        """One step of training as a job makes it."""
        self._backward(optimizer, batch)
        self._steps(optimizer)

    def step_with_closure(self, optimizer: Optimizer, batch: Tensor) -> None:
        """One step as Lightning makes it: forward and backward are inside the optimizer's step."""
        self._steps(optimizer, lambda: self._backward(optimizer, batch))

    def _backward(self, optimizer: Optimizer, batch: Tensor) -> None:
        optimizer.zero_grad()
        tracker = self.tracker
        if self.forward is None:
            _unless(tracker.counted.forward, tracker.forwards.outer)(self.model, [batch])
        loss = (self.forward or self.model)(batch).square().mean()
        closely = tracker.window.looks_closely
        if closely:
            tracker.backwards.begins()
        else:
            tracker.counted.backward()
        loss.backward()
        if closely:
            tracker.backwards.over(loss)

    def _steps(self, optimizer: Optimizer, *closure: Callable[[], None]) -> None:
        tracker, args = self.tracker, (optimizer, *closure)
        _unless(tracker.counted.before_step, tracker.steps.before)(optimizer, args, {})
        for one in closure:
            one()
        optimizer.step()
        _unless(tracker.counted.after_step, tracker.steps.after)(optimizer, args, {})

    def written(self, kind: type[TraceRecord]) -> list[Any]:
        """Its records of one kind; it writes none after this."""
        self.trace.close()
        return [one for one in read_trace(Path(self.rank.path(segment_name(0)))) if isinstance(one, kind)]


def _unless(counts: Callable[..., bool], observer: Callable[..., None]) -> Callable[..., None]:
    """As `TraceWriter.counting`."""

    def counted(*args: Any) -> None:
        if not counts(*args):
            observer(*args)

    return counted
