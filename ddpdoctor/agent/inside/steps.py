"""Counts how far a rank has come, and marks where its iterations fall among its collectives."""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from .calls import Calls
from .log import Log
from .strip import NO_SEQ
from .turns import Turns

FORWARD, BATCH = "forward", "batch"


def count_steps(log: Log, calls: Calls) -> None:
    """Count from now on, in `log`: optimizer steps, training forwards of wrapped models, batches drawn."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401
        if log.rank.is_here():
            log.strip.step()

    register_optimizer_step_post_hook(step)
    _count_forwards(log, calls)
    _count_batches(log, calls)


def _mark(
    log: Log, calls: Calls, what: str, iteration: int, source: int, *, began_ns: int = 0, turn: int | None = None
) -> None:
    """Write down how many collectives the default group had made when an iteration began.

    `source` is the number of the data set that the batch is of, or of the line that the forward was called from.
    """
    with log.rank.giving_up("marking iterations"):
        group = calls.default_group()
        seq = calls.made(group) if group is not None else NO_SEQ
        log.strip.mark(log.number("mark", what), source, iteration, seq, began_ns=began_ns, turn=turn)


def _count_forwards(log: Log, calls: Calls) -> None:
    """Wrap the forward of the class: a hook on the user's model would be pickled with it."""
    from torch import is_grad_enabled
    from torch.compiler import is_compiling
    from torch.nn.parallel.distributed import DistributedDataParallel

    forward = DistributedDataParallel.forward
    turns = Turns(log.is_users)

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a model takes anything
        if not is_compiling() and is_grad_enabled() and log.rank.is_here():
            log.strip.forward()
            turn = turns.now(sys._getframe(1))  # noqa: SLF001
            _mark(log, calls, FORWARD, log.strip.forwards, log.place(1), turn=turn)
        return forward(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    # TorchDynamo decides by file which frames it leaves alone; ours must be treated like the one that it stands for.
    counted.__code__ = counted.__code__.replace(co_filename=forward.__code__.co_filename, co_name="forward")
    DistributedDataParallel.forward = functools.wraps(forward)(counted)  # type: ignore[method-assign]


def _count_batches(log: Log, calls: Calls) -> None:
    """Every data set has a count of its own: an evaluation on one rank draws batches that are no iterations."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    draw = _BaseDataLoaderIter.__next__
    drawn: dict[int, int] = {}

    @functools.wraps(draw)
    def counted(self: Any) -> Any:  # noqa: ANN401
        asked = time.time_ns()
        batch = draw(self)
        if log.rank.is_here():
            source = log.number("data", id(self._dataset))
            drawn[source] = drawn.get(source, 0) + 1
            in_its_pass = getattr(self, "_num_yielded", None)
            _mark(log, calls, BATCH, drawn[source], source, began_ns=asked, turn=in_its_pass)
        return batch

    _BaseDataLoaderIter.__next__ = counted  # type: ignore[method-assign]
