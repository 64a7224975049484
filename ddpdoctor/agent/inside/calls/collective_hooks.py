"""Records what the flight recorder cannot see of a collective: the reduce operation, the root, the step, the user's line."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

from ..schema.call_ring import NO_RANK, NO_SEQ
from ..signal_errors import is_the_jobs, pass_on
from .call_log import CallLog

# Those that reach the process group themselves; *_object collectives are made of them.
COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_single", "all_gather_into_tensor", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "all_reduce_coalesced", "all_gather_coalesced",
)  # fmt: skip
POINT_TO_POINT = ("send", "recv", "isend", "irecv")
MONITORED_BARRIER = "monitored_barrier"
# in the recorder, on every rank; gloo's own count has more on rank 0, which hears all others
NUMBERS_OF_A_MONITORED_BARRIER = 2
DESCRIBED_BY = {  # the parameter that holds what the rank gives
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor",
    "all_gather_single": "input_tensor", "all_gather_into_tensor": "input_tensor",
    "reduce_scatter_single": "input", "reduce_scatter_tensor": "input",
}  # fmt: skip
ROOTS = ("src", "dst", "group_src", "group_dst")


class CollectiveHooks:
    """Wraps the functions of `torch.distributed`; silent until there is a log, that is, until this is a rank."""

    def __init__(self, c10d: ModuleType) -> None:
        self.log: CallLog | None = None
        self._c10d = c10d
        self._groups: dict[str, int] = {}
        # the record of each asynchronous send or receive that nobody has waited for yet, by the number of its handle
        self._issued: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._transfers: dict[int, int] = {}  # sends and receives by the number of their group
        # how many of a group's numbers its sends and receives took (gloo counts them too)
        self._apart: dict[str, int] = {}
        self._uncounted: set[str] = set()  # groups whose backend gives its calls no numbers
        self._inside: set[int] = set()  # threads in one of our functions: what that calls in turn is no call of its own
        for name in (*COLLECTIVES, *POINT_TO_POINT, MONITORED_BARRIER):
            function = getattr(c10d, name, None)
            if function is not None:
                setattr(c10d, name, self._recorded(name, function))
        work = getattr(c10d, "Work", None)
        if work is not None and hasattr(work, "wait"):
            work.wait = self._observed_wait(work.wait)
        c10d.new_group = self._recorded_new_group(c10d.new_group)  # type: ignore[attr-defined]

    def _recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        position = {parameter: index for index, parameter in enumerate(inspect.signature(function).parameters)}
        roots = tuple(root for root in ROOTS if root in position)
        numbered, between_two, reduces = name in COLLECTIVES, name in POINT_TO_POINT, "op" in position
        described = DESCRIBED_BY.get(name)
        taken = NUMBERS_OF_A_MONITORED_BARRIER if name == MONITORED_BARRIER else 0

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is PyTorch's
            log = self.log
            thread = get_ident()
            if log is None or thread in self._inside or not log.rank.is_here:
                return function(*args, **kwargs)

            def given(parameter: str) -> Any:  # noqa: ANN401
                if parameter in kwargs:
                    return kwargs[parameter]
                at = position.get(parameter)
                return args[at] if at is not None and at < len(args) else None

            index = None
            group: Any = None
            try:
                group = given("group") or self._c10d._get_default_group()  # noqa: SLF001
                seq = self._next(group) if numbered else NO_SEQ
                op, number, place = log.op(name), self._group(log, group), log.place(1)
                root = self._root(roots, given, group)
                if between_two:
                    nth = self._transfers[number] = self._transfers.get(number, 0) + 1
                    index = log.ring.begin_point_to_point(
                        op, number, place, peer=root, tag=given("tag") or 0, number=nth
                    )
                else:
                    reduce_op = log.reduce_op(_name(given("op"))) if reduces else 0
                    tensor = log.tensor(given(described)) if described is not None else 0
                    index = log.ring.begin_collective(
                        op, number, place, seq=seq, root=root, reduce_op=reduce_op, tensor=tensor
                    )
                error = sys.exc_info()[1]
                if error is not None and numbered:
                    log.handling(str(group.group_name), seq, error)
            except BaseException as failed:
                if index is not None and is_the_jobs(failed):
                    log.ring.end(index)  # it is not made
                pass_on(failed)  # else the call itself says what is wrong with it
            before: int | None = None
            made: Any = None
            try:
                if index is not None and not numbered:
                    before = self._number_of(group)
                self._inside.add(thread)
                made = function(*args, **kwargs)
                return made
            finally:
                self._inside.discard(thread)
                if index is not None:
                    log.ring.end(index)
                    if before is not None:
                        self._apart_from(group, before, taken)
                    if between_two and made is not None:
                        self._issued_as(made, index)

        return call

    def _issued_as(self, work: Any, index: int) -> None:  # noqa: ANN401
        """Remember which record a handle belongs to, as long as the handle lives."""
        number = id(work)
        try:
            self._issued[number] = (weakref.ref(work, functools.partial(self._issued.pop, number)), index)
        except TypeError as failed:  # a handle with slots
            pass_on(failed)

    def _observed_wait(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """`Work.wait`, which shows in the ring that the rank waits for a send or receive that it has issued."""

        @functools.wraps(wait)
        def waited(work: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is PyTorch's
            issued = self._issued.pop(id(work), None) if self._issued else None
            log = self.log
            if issued is None or log is None or not log.rank.is_here:
                return wait(work, *args, **kwargs)
            log.ring.resume(issued[1])
            try:
                return wait(work, *args, **kwargs)
            finally:
                log.ring.end(issued[1])

        return waited

    def default_group(self) -> Any:  # noqa: ANN401
        """The group of all ranks, or None before it is made and after it is destroyed."""
        return self._c10d._world.default_pg  # noqa: SLF001 - the public getter raises

    def so_far(self) -> int:
        """How many collectives the group of all ranks has made; NO_SEQ where there is none. It is asked for at each forward."""
        group = self._c10d._world.default_pg  # noqa: SLF001 - the public getter raises
        if group is None:
            return NO_SEQ
        return self.made(group) if self._apart else self._number_of(group)

    def _apart_from(self, group: Any, before: int, taken: int) -> None:  # noqa: ANN401
        name = str(group.group_name)
        self._apart[name] = self._apart.get(name, 0) + max(self._number_of(group) - before - taken, 0)

    def made(self, group: Any) -> int:  # noqa: ANN401
        """How many collectives the group has made, as the recorder counts them; NO_SEQ where its backend counts none."""
        number = self._number_of(group)
        if number == NO_SEQ or not self._apart:
            return number
        return number - self._apart.get(str(group.group_name), 0)

    def _next(self, group: Any) -> int:  # noqa: ANN401
        """The number of the call that is about to be made.

        Raises:
            LookupError: its backend gives none; what has no number is compared with nothing.
        """
        made = self.made(group)
        if made == NO_SEQ:
            raise LookupError
        return made + 1

    def _number_of(self, group: Any) -> int:  # noqa: ANN401
        """The latest number that the group has given; NO_SEQ where its backend gives none: MPI, and backends of others."""
        if self._uncounted and str(group.group_name) in self._uncounted:
            return NO_SEQ
        try:
            number: int = group._get_sequence_number_for_group()  # noqa: SLF001 - the only place that tells
        except RuntimeError as failed:
            pass_on(failed)
            self._uncounted.add(str(group.group_name))
            return NO_SEQ
        return number

    def _group(self, log: CallLog, group: Any) -> int:  # noqa: ANN401
        """The number of the group's name, description and backend, as the recorder has them, and of its members."""
        name = str(group.group_name)
        number = self._groups.get(name)
        if number is None:
            known = str(group.group_desc), str(group.name()), self._members(group)
            number = self._groups[name] = log.group(name, *known)
        return number

    def _members(self, group: Any) -> tuple[int, ...]:  # noqa: ANN401
        """The global ranks of a group; none for the group of all ranks, and where torch does not tell them."""
        try:
            return () if group is self.default_group() else tuple(self._c10d.get_process_group_ranks(group))
        except Exception as failed:
            pass_on(failed)
            return ()

    def _root(self, roots: tuple[str, ...], given: Callable[[str], Any], group: Any) -> int:  # noqa: ANN401
        """The root's global rank, however the call names it."""
        for name in roots:
            root = given(name)
            if root is not None:
                in_group = name.startswith("group_")
                return int(self._c10d.get_global_rank(group, root) if in_group else root)
        return NO_RANK

    def _recorded_new_group(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            log = self.log
            if log is None or not log.rank.is_here:
                return function(ranks, *args, **kwargs)
            index = None
            try:
                members = sorted(ranks) if ranks is not None else list(range(log.rank.world_size or 0))
                asked = log.members(tuple(int(member) for member in members))
                index = log.ring.begin_new_group(asked, log.place(1))
            except BaseException as failed:
                if index is not None and is_the_jobs(failed):
                    log.ring.end(index)  # it is not made
                pass_on(failed)
            try:
                return function(ranks, *args, **kwargs)
            finally:
                if index is not None:
                    log.ring.end(index)

        return new_group


def _name(reduce_op: Any) -> str:  # noqa: ANN401 - ReduceOp has two types
    """`SUM`, `MAX`, ...: SUM where none is given, as in PyTorch."""
    if reduce_op is None:
        return "SUM"
    name = _NAMES.get(reduce_op)
    if name is None:
        name = _NAMES[reduce_op] = str(getattr(reduce_op, "op", reduce_op)).rpartition(".")[2]
    return name


_NAMES: dict[Any, str] = {}
