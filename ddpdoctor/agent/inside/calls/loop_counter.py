"""At which turn of the user's own loop a forward is called, by the loop's own count: `step` of `for step, batch in ...`.

A module's variables can be read at no cost. Those of a running function can from Python 3.13 on; before, `f_locals` is a
copy that would keep the user's tensors alive.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from ..signal_errors import pass_on
from .call_stacks import Stack

MOST_TURNS = 1 << 31
MOST_LINES = 1 << 14  # lines that are remembered
MAX_SOURCE_BYTES = 1 << 20
_READS_FUNCTIONS = sys.version_info >= (3, 13)


class LoopCounters:
    """Finds the variables that count the loops around lines; each line's source is looked at once."""

    def __init__(self, is_users: Callable[[str], bool]) -> None:
        self._is_users = is_users
        # by the id of the code, which costs less than its hash, and its line; the code stays alive
        self._counters: dict[tuple[int, int], tuple[CodeType, tuple[str, ...]]] = {}

    def now(self, stack: Stack, frame: FrameType | None) -> int | None:
        """The count of the innermost loop that `stack` is in, whose innermost frame is `frame`; None where none is to be had."""
        if stack.counter is None:
            stack.counter = self._counter(stack)
        depth, names = stack.counter
        if not names:
            return None
        for _ in range(depth):
            frame = frame.f_back if frame is not None else None
        if frame is None:
            return None
        variables = frame.f_locals
        for name in names:  # no generator: it is asked for at every forward
            count = variables.get(name)
            if type(count) is int and 0 <= count < MOST_TURNS:
                return count
        return None

    def _counter(self, stack: Stack) -> tuple[int, tuple[str, ...]]:
        """The place in the stack of the innermost line in a loop that variables count, and their names."""
        for depth, (code, line) in enumerate(stack.lines):
            met = self._counters.get((id(code), line))
            if met is None:
                if len(self._counters) > MOST_LINES:  # code that is made anew at every step
                    self._counters.clear()
                met = self._counters[id(code), line] = code, self._names(code, line)
            if met[1]:
                return depth, met[1]
        return 0, ()

    def _names(self, code: CodeType, line: int) -> tuple[str, ...]:
        readable = _READS_FUNCTIONS or not code.co_flags & inspect.CO_OPTIMIZED
        if not readable or not self._is_users(code.co_filename):
            return ()
        try:
            with open(code.co_filename, "rb") as file:
                tree = ast.parse(file.read(MAX_SOURCE_BYTES))
            return tuple(_counters(tree, code.co_firstlineno, line))
        except Exception as error:
            pass_on(error)
            return ()


def _counters(tree: ast.Module, first_line: int, line: int) -> Iterator[str]:
    """The targets of the innermost loop around `line` that begins at `first_line` or later, and what it adds a constant to."""
    around: list[Any] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and first_line <= node.lineno < line <= _last(node)
    ]
    for loop in sorted(around, key=lambda node: -node.lineno)[:1]:
        if not isinstance(loop, ast.While):
            yield from (node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name))
        for node in ast.walk(loop):
            match node:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant()):
                    yield name


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
