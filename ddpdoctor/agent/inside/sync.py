"""What `ddpdoctor verify-sync` has in a rank: hooks that write down what the replicas hold, and no collective."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from types import FrameType, ModuleType
from typing import Any

from .batches import Batches
from .journal import Journal, is_users
from .rank import Rank

EVERY = "DDPDOCTOR_SYNC_EVERY"
CLOSELY = "DDPDOCTOR_SYNC_CLOSELY"  # `3-5 a.weight`: what to look for in these steps
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "broadcast", "broadcast_object_list", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "all_gather_coalesced",
)  # fmt: skip

_called = 0
_began: Any = None  # told of each collective and what it returned, once this process is a rank


def imported(c10d: ModuleType, rank: Rank) -> None:  # noqa: ARG001 - what every feature is given
    """Count the collectives that the user's code calls; DDP's own do not come this way."""
    for name in COLLECTIVES:
        if hasattr(c10d, name):
            setattr(c10d, name, _counted(name, getattr(c10d, name)))


def joined(rank: Rank) -> None:
    """Install the hooks, and see to it that the last words are written when the process ends."""
    atexit.register(follow(rank, int(os.environ.get(EVERY) or 0)).close)


class Following:
    """The tracker of one rank, at work."""

    def __init__(self, journal: Journal, steps: Any) -> None:  # noqa: ANN401 - Steps; torch is not imported here
        self._journal = journal
        self._steps = steps

    def wrapped_before(self, ddp: Any) -> None:  # noqa: ANN401 - a DistributedDataParallel
        """Follow a model that was wrapped before the tracker was there."""
        from .training import structure_listing

        self._journal.observing(lambda: self._journal.write("wrapping", structure=structure_listing(ddp.module)))()
        self._journal.observing(self._steps.wrapped)(ddp)

    def close(self) -> None:
        """Write the last words; nothing is written after them."""
        self._journal.observing(self._steps.close)()
        self._journal.close()


def follow(rank: Rank, every: int) -> Following:
    """Install the hooks of a tracker that looks at every `every` steps (0: as time allows)."""
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    from .training import Steps

    journal = Journal(rank)
    batches = Batches(journal)
    steps = Steps(journal, batches, every=every, collectives=lambda: _called, closely=_closely())
    observe = journal.observing
    observe(steps.begin)()
    batches.install()
    observe(steps.origins.install)(DistributedDataParallel)
    observe(steps.settings.install)(journal)
    observe(_follow_handles)(journal, steps)
    _follow_wrapper(DistributedDataParallel, steps, journal)
    _follow_loads(steps, journal)
    observe(_follow_join)(steps, journal)
    _follow_backward(steps, journal)
    before = observe(lambda optimizer, args, kwargs: steps.before_step(optimizer, args, kwargs))
    after = observe(lambda optimizer, _args, _kwargs: steps.after_step(optimizer))
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    return Following(journal, steps)


def _closely() -> Any:  # noqa: ANN401 - Closely
    from .training import Closely

    asked = os.environ.get(CLOSELY)
    if not asked:
        return Closely()
    window, _, tensor = asked.partition(" ")
    first, _, last = window.partition("-")
    return Closely(range(int(first), int(last) + 1), tensor)


def _follow_handles(journal: Journal, steps: Any) -> None:  # noqa: ANN401
    """See the handle of each asynchronous collective, and whether somebody waits for it."""
    global _began
    from torch._C._distributed_c10d import Work

    steps.unwaited.install(Work)
    _began = journal.observing(steps.unwaited.began)


def _follow_wrapper(wrapper: Any, steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """See each DistributedDataParallel before and after it is built, and each of its forwards."""
    from torch.compiler import is_compiling

    from .training import structure_listing

    build: Any = wrapper.__init__
    forward: Any = wrapper.forward
    was_wrapped: Any = journal.observing(steps.wrapped)
    begins: Any = journal.observing(steps.outer_forward)
    looked_at: Any = journal.observing(lambda module: journal.write("wrapping", structure=structure_listing(module)))

    @functools.wraps(build)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
        looked_at(module)
        build(self, module, *args, **kwargs)
        was_wrapped(self)

    def observed(self: Any, *inputs: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if not is_compiling():
            begins(self, [inputs, kwargs])
        return forward(self, *inputs, **kwargs)

    # TorchDynamo decides by file which frames it leaves alone; ours must be treated like the one that it stands for.
    observed.__code__ = observed.__code__.replace(co_filename=forward.__code__.co_filename, co_name="forward")
    wrapper.__init__ = __init__
    wrapper.forward = functools.wraps(forward)(observed)


def _follow_loads(steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """See each model before a state dict is loaded into it."""
    from torch import nn

    load: Any = nn.Module.load_state_dict
    loads: Any = journal.observing(steps.loads)

    @functools.wraps(load)
    def load_state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        loads(module)
        return load(module, *args, **kwargs)

    nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]


def _follow_join(steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """Count the forwards and steps of its peers that a rank without data of its own only shadows, inside `Join`."""
    from torch.nn.parallel.distributed import _DDPJoinHook

    hook: Any = _DDPJoinHook
    shadow: Any = hook.main_hook
    shadowed: Any = journal.observing(lambda ddp: steps.shadowed(stepped=bool(ddp.require_forward_param_sync)))

    @functools.wraps(shadow)
    def main_hook(self: Any) -> None:  # noqa: ANN401
        shadow(self)
        shadowed(self.ddp)

    hook.main_hook = main_hook


def _follow_backward(steps: Any, journal: Journal) -> None:  # noqa: ANN401
    """See each `loss.backward()`, each `torch.autograd.grad`, and each step of a GradScaler."""
    import torch

    tensor: Any = torch.Tensor
    backward: Any = tensor.backward
    grad: Any = torch.autograd.grad
    scaler: Any = torch.amp.GradScaler
    scaled_step: Any = scaler.step
    begins: Any = journal.observing(steps.backward)
    over: Any = journal.observing(steps.backward_over)
    by_hand: Any = journal.observing(steps.grad)
    scaling: Any = journal.observing(
        lambda scaler: steps.scaled(float(scaler.get_scale()) if scaler.is_enabled() else None)
    )
    was_scaled: Any = journal.observing(
        lambda scaler, optimizer: steps.overflowed() if _left_out(scaler, optimizer) else None
    )

    @functools.wraps(backward)
    def observed_backward(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begins(self)
        result = backward(self, *args, **kwargs)
        over()
        return result

    @functools.wraps(grad)
    def observed_grad(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        by_hand()
        return grad(*args, **kwargs)

    @functools.wraps(scaled_step)
    def observed_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        scaling(self)
        result = scaled_step(self, optimizer, *args, **kwargs)
        was_scaled(self, optimizer)
        return result

    tensor.backward = observed_backward
    torch.autograd.grad = observed_grad
    scaler.step = observed_step


def _left_out(scaler: Any, optimizer: Any) -> bool:  # noqa: ANN401
    """Whether the scaler, just asked to step, found gradients that are not finite; not asked of a GPU, which would wait."""
    states = getattr(scaler, "_per_optimizer_states", {})  # a scaler that is switched off has none
    state = states.get(id(optimizer), {})
    return any(not tensor.is_cuda and bool(tensor.item()) for tensor in state.get("found_inf_per_device", {}).values())


def _counted(name: str, function: Any) -> Any:  # noqa: ANN401
    @functools.wraps(function)
    def collective(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        global _called
        _called += not _draws_data(sys._getframe(1))  # noqa: SLF001 - the way to one's callers
        result = function(*args, **kwargs)
        if _began is not None:
            first = args[0] if args else next(iter(kwargs.values()), None)
            _began(name, result, sys._getframe(1).f_code.co_filename, first)  # noqa: SLF001 - the way to one's caller
        return result

    return collective


def _draws_data(frame: FrameType | None) -> bool:
    """Whether a library's data loader makes the call while it is iterated over: to hand out batches or random states."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_name in {"__iter__", "__next__"}:
            return True
        frame = frame.f_back
    return False
