"""The user's lines that put modules into evaluation mode."""

from __future__ import annotations

import functools
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from ..schema.source_line import SourceLine
from ..signal_errors import job_keeps
from ..trace_writer import TraceWriter, user_line


class ModeChanges:
    """The last call of `train` or `eval` on each module; calls that such a call makes for the parts of a module are its own."""

    def __init__(self) -> None:
        self._calls: WeakKeyDictionary[nn.Module, tuple[int, SourceLine | None]] = WeakKeyDictionary()
        self.count = 0
        """How many calls there were."""

    def install(self, trace: TraceWriter) -> None:
        """Follow `nn.Module.train`, which `eval` calls, too."""
        from torch.compiler import is_compiling

        original: Any = nn.Module.train
        changes = trace.observing(self.changes)
        is_inside = False

        @functools.wraps(original)
        def train(module: Any, mode: Any = True) -> Any:  # noqa: ANN401
            nonlocal is_inside
            if is_inside or is_compiling():
                return original(module, mode)
            changes(module, evaluates=not mode)
            is_inside = True
            try:
                return original(module, mode)
            finally:
                is_inside = False

        nn.Module.train = train  # type: ignore[method-assign,assignment]

    def changes(self, module: nn.Module, *, evaluates: bool) -> None:
        """The user's code, or a library, changes the mode of `module`."""
        self.count += 1
        with job_keeps(TypeError):  # a class that compares its modules by value
            self._calls[module] = self.count, user_line() if evaluates else None

    def line_of(self, module: nn.Module) -> SourceLine | None:
        """Where `module` was last put into evaluation mode, itself or within another one; None where that is not known."""
        latest, line = 0, None
        for called, (number, at) in [*self._calls.items()]:
            if number > latest and any(one is module for one in called.modules()):
                latest, line = number, at
        return line
