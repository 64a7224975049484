"""Counts how far a rank has come, and records where its iterations fall among its collectives."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from typing import Any

from ..by_identity import ByIdentity
from ..signal_errors import pass_on
from ..user_code import is_users, show_as
from .call_log import CallLog
from .collective_hooks import CollectiveHooks
from .loop_counter import LoopCounters
from .missing_gradients import note_model
from .training_loop import TrainingLoop

MOST_BATCHES = (1 << 31) - 1  # what the record has room for


def count_steps(log: CallLog, hooks: CollectiveHooks) -> None:
    """Count from now on, in `log`: optimizer steps, training forwards of wrapped models, batches drawn."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    loop = TrainingLoop(log.ring)

    def step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401
        if log.rank.is_here:
            loop.steps()

    register_optimizer_step_post_hook(step)
    _note_wraps(log)
    _count_forwards(log, hooks, loop)
    _count_batches(log, hooks, loop)


def _note_wraps(log: CallLog) -> None:
    """Before a model is wrapped: its exchange of weights may end the process where ranks have other dtypes."""
    from torch.nn.parallel.distributed import DistributedDataParallel

    build = DistributedDataParallel.__init__
    signature = inspect.signature(build)

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - whatever it takes
        if log.rank.is_here:
            with log.rank.giving_up("noting a wrapped model"):
                given = _arguments(signature, self, *args, **kwargs)
                if given is not None and given.get("process_group") is None and given.get("device_mesh") is None:
                    dtypes = (str(one.dtype).rpartition(".")[2] for one in given["module"].parameters())
                    log.wraps(dtypes, log.place(1))
        build(self, *args, **kwargs)
        with log.rank.giving_up("noting a wrapped model"):
            note_model(self)

    show_as(noted, build)
    DistributedDataParallel.__init__ = functools.wraps(build)(noted)  # type: ignore[method-assign]


def _arguments(signature: inspect.Signature, *args: Any, **kwargs: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """The arguments of a call by name; None where they do not fit the signature, which the call itself reports."""
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        pass_on(error)
        return None


def _count_forwards(log: CallLog, hooks: CollectiveHooks, loop: TrainingLoop) -> None:
    """Wrap the forward of the class: a hook on the user's model would be pickled with it."""
    from torch import is_grad_enabled
    from torch.compiler import is_compiling
    from torch.nn.parallel.distributed import DistributedDataParallel

    forward = DistributedDataParallel.forward
    turns, recording = LoopCounters(is_users), log.rank.giving_up("recording forwards")

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a model takes anything
        if not is_compiling() and is_grad_enabled() and log.rank.is_here:
            loop.trains()
            log.ring.forwards += 1
            try:
                caller = sys._getframe(1)  # noqa: SLF001
                stack, seq = log.stacks.of(caller), hooks.so_far()
                place, turn = log.place_of(stack), turns.now(stack, caller)
                reduces = getattr(self, "require_backward_grad_sync", None)
                log.ring.forward(place, seq=seq, number=log.ring.forwards, turn=turn, reduces=reduces)
            except BaseException as error:
                pass_on(error)
                recording.failed(error)
        return forward(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    show_as(counted, forward)
    DistributedDataParallel.forward = functools.wraps(forward)(counted)  # type: ignore[method-assign]


def _count_batches(log: CallLog, hooks: CollectiveHooks, loop: TrainingLoop) -> None:
    """Every data set has a count of its own; which batches are iterations is for the loop to tell."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    draw = _BaseDataLoaderIter.__next__
    data_sets, recording = ObjectNumbers(), log.rank.giving_up("recording batches")

    @functools.wraps(draw)
    def counted(self: Any) -> Any:  # noqa: ANN401
        asked = time.time_ns()
        batch = draw(self)
        if log.rank.is_here and loop.is_here():
            try:
                drawn, in_pass = loop.pass_of(self), getattr(self, "_num_yielded", None)
                if drawn is None or in_pass is None or in_pass == 1:
                    drawn = drawn or loop.begins(self, data_sets.of(self._dataset))
                    drawn.length = _length(self)
                loop.drew(drawn, asked, hooks.so_far(), in_pass)
            except BaseException as error:
                pass_on(error)
                recording.failed(error)
        return batch

    _BaseDataLoaderIter.__next__ = counted  # type: ignore[method-assign]


class ObjectNumbers:
    """Numbers objects from 1 in the order in which they are first seen, as long as they live, and keeps none alive."""

    def __init__(self) -> None:
        self._count = 0
        self._numbers: ByIdentity[int] = ByIdentity(by_address=True)

    def of(self, one: object) -> int:
        """The number of `one`."""
        number = self._numbers.get(one)
        if number is None:
            number = self._count = self._count + 1
            self._numbers.put(one, number)
        return number


def _length(iterator: Any) -> int | None:  # noqa: ANN401 - of any kind of data loader
    """How many batches a pass has; None of an iterable data set, whose loader does not know."""
    try:
        return min(len(iterator._index_sampler), MOST_BATCHES)  # noqa: SLF001
    except Exception as error:
        pass_on(error)
        return None
