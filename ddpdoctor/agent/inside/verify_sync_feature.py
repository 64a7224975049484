"""What `ddpdoctor verify-sync` has in a rank: hooks that write down what the replicas hold, and no collective."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from .rank_process import Rank
from .user_code import is_users, pass_warnings_on, show_as

if TYPE_CHECKING:  # only a rank loads them
    from .trace_writer import TraceWriter
    from .training.backward_observer import BackwardObserver
    from .training.close_up import CloseUp
    from .training.step_observer import StepObserver
    from .training.step_tracker import StepTracker

EVERY = "DDPDOCTOR_SYNC_EVERY"
CLOSE_UP = "DDPDOCTOR_SYNC_CLOSE_UP"  # `3-5 a.weight`: what to look for in these steps
RECOMPUTE = "DDPDOCTOR_SYNC_RECOMPUTE"  # 1: make each audited step again, on copies
PROBE = "DDPDOCTOR_SYNC_PROBE"  # every how many steps a probe batch runs; 0: never
SHARE = "DDPDOCTOR_SYNC_SHARE"  # of the job's time that following may cost
SEGMENT_SECONDS = "DDPDOCTOR_SYNC_SEGMENT_SECONDS"  # of the trace, which is one file without
JOINING = "joining"  # the suffix of a file that is there while the rank waits for the others, and says where
DEFAULT_SHARE = 0.005
COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "broadcast", "broadcast_object_list", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "all_gather_coalesced",
)  # fmt: skip

_called = 0
_began: Any = None  # called with each collective and what it returned, once this process is a rank
_reduced: Any = None  # called with each collective and what it was given, likewise
_leaves: Any = None  # called where the process group is destroyed, likewise


def imported(c10d: ModuleType, rank: Rank) -> None:  # noqa: ARG001 - what every feature is given
    """Count the collectives that the user's code calls; DDP's own do not come this way."""
    for name in COLLECTIVES:
        if hasattr(c10d, name):
            setattr(c10d, name, _counted(name, getattr(c10d, name)))
    if hasattr(c10d, "destroy_process_group"):
        c10d.destroy_process_group = _after_a_look(c10d.destroy_process_group)  # type: ignore[attr-defined]


def _after_a_look(destroy: Any) -> Any:  # noqa: ANN401
    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> Any:  # noqa: ANN401
        # a handler of a signal may have interrupted the agent, which then holds a lock
        in_main = threading.current_thread() is threading.main_thread()
        if _leaves is not None and group is None and in_main and not _is_at_work():
            _leaves()
        return destroy(group)

    return destroy_process_group


def joining(rank: Rank) -> None:
    """Show outside where this rank waits for the others."""
    with open(rank.path(JOINING), "w", encoding="utf-8") as file:
        file.write(rank.address)


def joined(rank: Rank) -> None:
    """Install the hooks, and write the end of the trace when the process ends."""
    os.unlink(rank.path(JOINING))
    share = float(os.environ.get(SHARE) or 0.0) or DEFAULT_SHARE
    segment_seconds = float(os.environ.get(SEGMENT_SECONDS) or 0.0)
    every = int(os.environ.get(EVERY) or 0)
    tracking = follow(rank, every, share=share, segment_seconds=segment_seconds)
    atexit.register(tracking.close)
    _close_at_os_exit(rank, tracking)


def _close_at_os_exit(rank: Rank, tracking: Tracking) -> None:
    """Write the end of the trace also where the main thread ends the rank in order by `os._exit(0)`.

    Not where weights are on a GPU: a program that leaves so may do it because the GPU has stopped, and reading it would wait.
    Nor where the agent is at work: a handler of a signal that ends the rank may have interrupted it while it holds a lock.
    """
    original = os._exit

    @functools.wraps(original)
    def leave(status: int) -> NoReturn:
        if status == 0 and rank.is_here and threading.current_thread() is threading.main_thread():
            with rank.giving_up("writing the end of the trace"):
                if not _is_at_work() and not tracking.waits:
                    tracking.close()
        original(status)

    os._exit = leave


def _is_at_work() -> bool:
    """Whether a thread of this process is in an observer or at the door of a block of the budget."""
    files = {os.path.join(os.path.dirname(__file__), name) for name in ("trace_writer.py", "overhead_budget.py")}
    for innermost in sys._current_frames().values():  # noqa: SLF001 - the way to what threads do
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_filename in files:
                return True
            frame = frame.f_back
    return False


class Tracking:
    """The tracker of one rank, at work."""

    def __init__(self, trace: TraceWriter, tracker: StepTracker) -> None:
        self._trace, self._tracker = trace, tracker

    def wrapped_before(self, ddp: Any) -> None:  # noqa: ANN401 - a DistributedDataParallel
        """Follow a model that was wrapped before the tracker was there."""
        self._trace.observing(self._tracker.audit.wrapping)(ddp.module)
        self._trace.observing(self._tracker.wrapped)(ddp)

    @property
    def waits(self) -> bool:
        """Whether reading the weights may have to wait for a device."""
        return self._tracker.waits

    def close(self) -> None:
        """Write the end of the trace; nothing is written after it."""
        self._trace.observing(self._tracker.close)()
        self._trace.close()


def follow(rank: Rank, every: int, *, share: float = DEFAULT_SHARE, segment_seconds: float = 0.0) -> Tracking:
    """Install the hooks of a tracker that looks at every `every` steps.

    With 0 it looks as often as `share` of the job's time allows. `segment_seconds` bounds the trace, see `TraceWriter`.
    """
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    from .data.dataloader_hooks import Batches
    from .overhead_budget import Budget
    from .trace_writer import TraceWriter
    from .training.observers import Requested
    from .training.step_tracker import StepTracker

    trace = TraceWriter(rank, segment_seconds=segment_seconds)
    batches = Batches(trace)
    budget = Budget(trace, every, share)
    requested = Requested(_close_up(), int(os.environ.get(PROBE) or 0), os.environ.get(RECOMPUTE) == "1")
    tracker = StepTracker(trace, batches, budget, lambda: _called, requested)
    replica, observe = tracker.replica, trace.observing
    observe(tracker.audit.begin)()
    batches.install()
    observe(tracker.observers.origins.install)(DistributedDataParallel)
    observe(replica.settings.install)(trace)
    observe(replica.models.mode_changes.install)(trace)
    observe(_follow_collectives)(tracker, trace)
    _follow_wrapper(DistributedDataParallel, tracker, trace)
    _follow_loads(tracker, trace)
    observe(_follow_join)(tracker.steps, trace)
    _follow_backward(tracker, trace)
    _follow_gradients_by_hand(tracker.backwards, trace)
    _follow_scaler(tracker.steps, trace)
    counted, steps = tracker.counted, tracker.steps
    hook = register_optimizer_step_pre_hook(trace.counting(counted.before_step, observe(steps.before)))
    steps.pre_hooks.ours = hook.id
    register_optimizer_step_post_hook(trace.counting(counted.after_step, observe(steps.after)))
    return Tracking(trace, tracker)


def _close_up() -> CloseUp:
    from .training.close_up import CloseUp

    asked = os.environ.get(CLOSE_UP)
    if not asked:
        return CloseUp()
    window, _, tensor = asked.partition(" ")
    first, _, last = window.partition("-")
    return CloseUp(range(int(first), int(last) + 1), tensor)


def _follow_collectives(tracker: StepTracker, trace: TraceWriter) -> None:
    """See what each collective is given, the handle of an asynchronous one, and where the process group is destroyed."""
    global _began, _reduced, _leaves
    from torch._C._distributed_c10d import Work

    unwaited = tracker.observers.unwaited
    unwaited.install(Work)
    _began = trace.observing(unwaited.began)
    _reduced = trace.observing(tracker.backwards.reduced)
    _leaves = trace.observing(tracker.leaves)


def _follow_wrapper(wrapper: Any, tracker: StepTracker, trace: TraceWriter) -> None:  # noqa: ANN401
    """See each DistributedDataParallel before and after it is built, and each of its forwards."""
    from torch.compiler import is_compiling

    build: Any = wrapper.__init__
    forward: Any = wrapper.forward
    was_wrapped: Any = trace.observing(tracker.wrapped)
    begins: Any = trace.counting(tracker.counted.forward, trace.observing(tracker.forwards.outer))
    is_wrapped: Any = trace.observing(tracker.audit.wrapping)

    @functools.wraps(build)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
        is_wrapped(module)
        build(self, module, *args, **kwargs)
        was_wrapped(self)

    pass_warnings_on(__init__)

    def observed(self: Any, *inputs: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if not is_compiling():
            begins(self, [inputs, kwargs])
        return forward(self, *inputs, **kwargs)

    show_as(observed, forward)
    wrapper.__init__ = __init__
    wrapper.forward = functools.wraps(forward)(observed)


def _follow_loads(tracker: StepTracker, trace: TraceWriter) -> None:
    """See each model before a state dict is loaded into it."""
    from torch import nn

    load: Any = nn.Module.load_state_dict
    loads: Any = trace.observing(tracker.loads)

    @functools.wraps(load)
    def load_state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        loads(module)
        return load(module, *args, **kwargs)

    nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]


def _follow_join(steps: StepObserver, trace: TraceWriter) -> None:
    """Count the forwards and steps of its peers that a rank without data of its own only shadows, inside `Join`.

    A step that its optimizer makes there, as that of ZeRO-1 does, is one of these.
    """
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel.distributed import _DDPJoinHook

    hook: Any = _DDPJoinHook
    shadow: Any = hook.main_hook
    shadowed: Any = trace.observing(lambda ddp: steps.shadowed(stepped=bool(ddp.require_forward_param_sync)))

    @functools.wraps(shadow)
    def main_hook(self: Any) -> None:  # noqa: ANN401
        shadow(self)
        shadowed(self.ddp)

    hook.main_hook = main_hook
    join: Any = Join
    leave: Any = join.__exit__

    @functools.wraps(leave)
    def leave_join(self: Any, *error: Any) -> Any:  # noqa: ANN401
        with steps.of_peers():
            return leave(self, *error)

    join.__exit__ = leave_join


def _follow_backward(tracker: StepTracker, trace: TraceWriter) -> None:
    """See each `loss.backward()`."""
    import torch

    tensor: Any = torch.Tensor
    backward: Any = tensor.backward
    window, counts = tracker.window, tracker.counted.backward
    given: Any = trace.observing(tracker.backwards.given)
    begins: Any = trace.observing(tracker.backwards.begins)
    over: Any = trace.observing(tracker.backwards.over)

    def observed_backward(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        given(self)
        if window.looks_closely:
            begins()
            trace.backwards += 1
            try:
                result = backward(self, *args, **kwargs)
            finally:
                trace.backwards -= 1
            trace.raise_held()
            over(self)
            return result
        counts()
        return backward(self, *args, **kwargs)

    show_as(observed_backward, backward)
    tensor.backward = functools.wraps(backward)(observed_backward)


def _follow_gradients_by_hand(backwards: BackwardObserver, trace: TraceWriter) -> None:
    """See each `torch.autograd.grad`."""
    import torch

    grad: Any = torch.autograd.grad
    by_hand: Any = trace.observing(backwards.grad)

    @functools.wraps(grad)
    def observed_grad(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        by_hand()
        return grad(*args, **kwargs)

    torch.autograd.grad = observed_grad


def _follow_scaler(steps: StepObserver, trace: TraceWriter) -> None:
    """See each step of a GradScaler."""
    import torch

    scaler: Any = torch.amp.GradScaler
    scaled_step: Any = scaler.step
    scaling: Any = trace.observing(
        lambda scaler: steps.scaled(float(scaler.get_scale()) if scaler.is_enabled() else None)
    )
    was_scaled: Any = trace.observing(
        lambda scaler, optimizer: steps.overflowed(optimizer) if _left_out(scaler, optimizer) else None
    )

    @functools.wraps(scaled_step)
    def observed_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        scaling(self)
        result = scaled_step(self, optimizer, *args, **kwargs)
        was_scaled(self, optimizer)
        return result

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
            _reduced(name, first, _members(kwargs.get("group", args[2] if len(args) > 2 else None)))
        return result

    return collective


def _members(group: Any) -> tuple[int, ...] | None:  # noqa: ANN401
    """The global ranks that a collective of `group`, None for the default one, reaches; None for all of them."""
    from torch.distributed import get_process_group_ranks, get_world_size

    if group is None or not hasattr(group, "size") or group.size() == get_world_size():
        return None
    return tuple(sorted(get_process_group_ranks(group)))


def _draws_data(frame: FrameType | None) -> bool:
    """Whether a library's data loader makes the call while it is iterated over: to hand out batches or random states."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_name in {"__iter__", "__next__"}:
            return True
        frame = frame.f_back
    return False
