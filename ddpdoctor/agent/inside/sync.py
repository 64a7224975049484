"""What `ddpdoctor verify-sync` has in a rank: hooks that write down what the replicas hold, and no collective."""

from __future__ import annotations

import atexit
import functools
import os
from types import ModuleType
from typing import Any

from .batches import Batches
from .journal import Journal
from .rank import Rank

EVERY = "DDPDOCTOR_SYNC_EVERY"
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "broadcast", "broadcast_object_list", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "all_gather_coalesced",
)  # fmt: skip

_called = 0


def imported(c10d: ModuleType, rank: Rank) -> None:  # noqa: ARG001 - what every feature is given
    """Count the collectives that the user's code calls; DDP's own do not come this way."""
    for name in COLLECTIVES:
        if hasattr(c10d, name):
            setattr(c10d, name, _counted(getattr(c10d, name)))


def joined(rank: Rank) -> None:
    """Install the hooks, and see to it that the last words are written when the process ends."""
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    from .training import Steps

    journal = Journal(rank)
    batches = Batches(journal)
    steps = Steps(journal, batches, every=int(os.environ.get(EVERY) or 0), collectives=lambda: _called)
    observe = journal.observing
    observe(steps.begin)()
    batches.install()
    _follow_wrapper(DistributedDataParallel, steps, journal)
    _follow_backward(steps, journal)
    before = observe(lambda optimizer, args, kwargs: steps.before_step(optimizer, args, kwargs))
    after = observe(lambda optimizer, _args, _kwargs: steps.after_step(optimizer))
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    atexit.register(observe(steps.close))


def _follow_wrapper(wrapper: Any, steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """See each DistributedDataParallel before and after it is built, and each of its forwards."""
    import torch

    from .training import structure_listing

    build, forward = wrapper.__init__, wrapper.forward
    was_wrapped = journal.observing(steps.wrapped)
    outside_the_graph: Any = torch._dynamo.disable  # noqa: SLF001 - torch.compiler.disable is the same
    begins: Any = outside_the_graph(journal.observing(functools.partial(_forward_begins, steps)))

    @functools.wraps(build)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
        listing: list[Any] = []

        def look() -> None:
            listing.extend(structure_listing(module))
            journal.write("wrapping", structure=listing)

        journal.observing(look)()
        build(self, module, *args, **kwargs)
        was_wrapped(self, listing, "")

    @functools.wraps(forward)
    def observed_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begins(self, inputs, kwargs)
        return forward(self, *inputs, **kwargs)

    wrapper.__init__ = __init__
    wrapper.forward = observed_forward


def _forward_begins(steps: Any, ddp: Any, inputs: Any, kwargs: Any) -> None:  # noqa: ANN401
    steps.outer_forward(ddp, [inputs, kwargs])


def _follow_backward(steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """See each `loss.backward()` and each step of a GradScaler."""
    import torch

    backward: Any = torch.Tensor.backward
    scaled_step: Any = torch.amp.GradScaler.step
    begins = journal.observing(steps.backward)
    scaling = journal.observing(lambda scaler: steps.scaled(float(scaler.get_scale())))

    @functools.wraps(backward)
    def observed_backward(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begins(self)
        return backward(self, *args, **kwargs)

    @functools.wraps(scaled_step)
    def observed_step(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        scaling(self)
        return scaled_step(self, *args, **kwargs)

    torch.Tensor.backward = observed_backward  # type: ignore[method-assign]
    torch.amp.GradScaler.step = observed_step  # type: ignore[method-assign]


def _counted(function: Any) -> Any:  # noqa: ANN401
    @functools.wraps(function)
    def collective(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        global _called
        _called += 1
        return function(*args, **kwargs)

    return collective
