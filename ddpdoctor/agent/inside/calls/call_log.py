"""The rank's log of its calls: the ring buffer, and every text (function, group, line, ...) that its records refer to, once."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from types import CodeType
from typing import Any, TypeVar

from ..rank_process import Rank
from ..schema.call_texts import Group, HandledError, Joining, Members, Op, Place, ReduceOp, TensorSpec, Text, Wrapped
from ..schema.error import Error
from ..schema.source_line import SourceLine
from ..user_code import is_programs, is_users
from .call_ring import CallRing
from .call_stacks import KnownStacks, Stack

MOST_HANDLED = 64  # lines that raised an error that was being handled while a collective was called
MOST_WRAPPED = 64  # models
MOST_CHARACTERS = 2000
MOST_LINES = (
    24  # of one stack: enough to meet a peer's stack in the loop that both are in, below a framework's trainer, too
)
MOST_OWN_LINES = 6  # of the stack of a handled error

K = TypeVar("K")


class CallLog:
    """Counters and calls of one rank. What a forked child (a data loader worker) does is not written.

    `op`, `group` and so on return the number that stands for a text in the ring; 0 is nothing.
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.stacks = KnownStacks()
        self.ring = CallRing(
            rank.path("ring"),
            rank=-1 if rank.number is None else rank.number,
            world_size=rank.world_size or 0,
            restart=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )
        self._texts = open(rank.path("texts"), "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - for life
        self._ops: dict[str, int] = {}
        self._groups: dict[tuple[str, str, str, tuple[int, ...]], int] = {}
        self._reduce_ops: dict[str, int] = {}
        self._tensors: dict[tuple[Any, Any], int] = {}
        self._members: dict[tuple[int, ...], int] = {}
        self._places: dict[tuple[SourceLine, ...], int] = {}
        self._handled: set[tuple[type, CodeType, int]] = set()
        self._wrapped = 0

    def op(self, name: str) -> int:
        """The number of the function `name` of `torch.distributed`."""
        return self._ops.get(name) or self._add(self._ops, name, Op(name))

    def reduce_op(self, name: str) -> int:
        """The number of the reduce operation `name`."""
        return self._reduce_ops.get(name) or self._add(self._reduce_ops, name, ReduceOp(name))

    def group(self, name: str, description: str, backend: str, ranks: tuple[int, ...] = ()) -> int:
        """The number of a process group."""
        group = (name, description, backend, ranks)
        return self._groups.get(group) or self._add(self._groups, group, Group(*group))

    def tensor(self, tensor: Any) -> int:  # noqa: ANN401 - a tensor; torch is not imported here
        """The number of the tensor's shape and dtype."""
        shape, dtype = key = tensor.shape, tensor.dtype
        known = self._tensors.get(key)
        if known:
            return known
        spec = TensorSpec(tuple(int(size) for size in shape), str(dtype).rpartition(".")[2])
        return self._add(self._tensors, key, spec)

    def members(self, ranks: tuple[int, ...]) -> int:
        """The number of a list of ranks."""
        return self._members.get(ranks) or self._add(self._members, ranks, Members(ranks))

    def place(self, depth: int) -> int:
        """The number of the lines of the user's code and of frameworks that led here, innermost first.

        They start `depth` frames above the caller. In a thread other than the main one, the line of `threading` that began it
        comes last.
        """
        return self.place_of(self.stacks.of(sys._getframe(depth + 1)))  # noqa: SLF001

    def place_of(self, stack: Stack) -> int:
        """The same of a stack."""
        if stack.place is None:
            own = (one for one in stack.lines if is_programs(one[0].co_filename))
            lines = [_source_line(code, line) for code, line in islice(own, MOST_LINES)]
            outermost, line = stack.lines[-1]
            if 0 < len(lines) < MOST_LINES and outermost.co_name == "_bootstrap":
                lines.append(_source_line(outermost, line))
            place = tuple(lines)
            stack.place = (self._places.get(place) or self._add(self._places, place, Place(place))) if place else 0
        return stack.place

    def handling(self, group: str, seq: int, error: BaseException) -> None:
        """Write down an error that is being handled while call `seq` of `group` is made, once for each line that raised."""
        lines = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        if not lines or (type(error), *lines[-1]) in self._handled or len(self._handled) == MOST_HANDLED:
            return
        self._handled.add((type(error), *lines[-1]))
        users = [one for one in reversed(lines) if is_users(one[0].co_filename)][:MOST_OWN_LINES]
        stack = tuple(_source_line(code, line) for code, line in users)
        self._write(0, HandledError(group, seq, Error(type(error).__name__, str(error)[:MOST_CHARACTERS], stack)))

    def wraps(self, dtypes: Iterable[str], place: int) -> None:
        """Write down a model that is wrapped at `place`, by the dtype of each of its parameters."""
        if self._wrapped < MOST_WRAPPED:
            self._wrapped += 1
            self._write(self._wrapped, Wrapped(tuple(sorted(Counter(dtypes).items())), place))

    def joining(self, joining: Joining) -> None:
        """Write down what the rank joins the others with."""
        self._write(0, joining)

    def _add(self, known: dict[K, int], key: K, text: Text) -> int:
        number = known[key] = len(known) + 1
        self._write(number, text)
        return number

    def _write(self, number: int, text: Text) -> None:
        with self.rank.giving_up("naming what was called"):
            self._texts.write(json.dumps([type(text).__name__, number, text]) + "\n")


def _source_line(code: CodeType, line: int) -> SourceLine:
    return SourceLine(os.path.abspath(code.co_filename), line, code.co_name)
