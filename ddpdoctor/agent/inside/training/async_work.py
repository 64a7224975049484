"""Asynchronous collectives of the user's code whose handle nobody waits for, or too late: after the result has been used."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..schema.source_line import SourceLine
from ..schema.step_records import UnwaitedWork
from ..tensors.tensor_digests import tensors_in
from ..trace_writer import TraceWriter, user_line
from ..user_code import is_users

WAITS = ("wait", "synchronize", "get_future", "get_future_result", "result", "exception")
RESULTS_COME_FIRST = frozenset({
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "all_to_all", "all_to_all_single",
})  # fmt: skip


class _Pending(NamedTuple):
    """A handle, and what is written down of it should nobody wait for it in time."""

    handle: weakref.KeyedRef[int, Any]
    op: str
    line: SourceLine | None
    step: int
    results: frozenset[int]  # where their memory begins, which the collective keeps until it is complete


class Unwaited:
    """Follows handles from the call that returns them to their end. `step` tells how many steps the rank has made."""

    def __init__(self, trace: TraceWriter, step: Callable[[], int]) -> None:
        self._trace, self._step = trace, step
        self.pending: dict[int, _Pending] = {}
        self._written: set[Any] = set()
        self._gone: list[weakref.KeyedRef[int, Any]] = []  # handles that died, which nobody may have waited for

    def install(self, work: Any) -> None:  # noqa: ANN401 - the class of handles
        """See every way of waiting for a handle."""
        waited = self._trace.observing(self._waited)
        for name in WAITS:
            if hasattr(work, name):
                setattr(work, name, _first(waited, getattr(work, name)))
        completed: Any = work.is_completed

        def is_completed(handle: Any) -> Any:  # noqa: ANN401
            done = completed(handle)
            if done:
                waited(handle)
            return done

        work.is_completed = is_completed

    def began(self, name: str, handle: Any, caller: str, first: Any) -> None:  # noqa: ANN401
        """A collective called in the file `caller` has returned `handle`, which is None where it was not asynchronous.

        `first` is its first argument.
        """
        if handle is None or not hasattr(handle, "wait") or not is_users(caller):
            return
        self.tell_gone()
        number = id(handle)
        self.pending[number] = _Pending(
            weakref.KeyedRef(handle, self._gone.append, number), name, user_line(), self._step(),
            frozenset(map(_place, tensors_in(first))) if name in RESULTS_COME_FIRST else frozenset(),
        )  # fmt: skip

    def used(self, tensors: Iterable[Tensor], by: str) -> None:
        """The job is about to read `tensors` (in a forward, or a step): tell of a result among them that is not there yet."""
        self.tell_gone()
        if not self.pending:
            return
        places = {_place(tensor) for tensor in tensors}
        for pending in list(self.pending.values()):
            handle = pending.handle()
            if pending.results & places and handle is not None and not handle.is_completed():
                self._tell(pending, by)

    def _waited(self, handle: Any) -> None:  # noqa: ANN401
        self.pending.pop(id(handle), None)

    def tell_gone(self) -> None:
        """Tell of handles that have died since, and that nobody had waited for."""
        while self._gone:
            handle = self._gone.pop()
            pending = self.pending.get(handle.key)
            if pending is not None and pending.handle is handle:
                del self.pending[handle.key]
                self._tell(pending, "")

    def _tell(self, pending: _Pending, by: str) -> None:
        if (pending.op, pending.line) not in self._written:
            self._written.add((pending.op, pending.line))
            self._trace.write(UnwaitedWork(pending.op, pending.step, pending.line, by))


def _place(tensor: Tensor) -> int:
    """Where the tensor's memory begins; views of one memory share it."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def _first(observer: Callable[[Any], None], function: Any) -> Any:  # noqa: ANN401
    @functools.wraps(function)
    def wrapped(handle: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        observer(handle)
        return function(handle, *args, **kwargs)

    return wrapped
