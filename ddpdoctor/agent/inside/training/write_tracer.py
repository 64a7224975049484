"""Which lines of the user's code write weights, gradients, optimizer state or settings: looked at after every line.

Only in the steps that a replay looks into, and for models beside the wrapped ones in a few. Nothing is read from the line
itself: what is watched is compared before and after.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch

from ..schema.source_line import SourceLine
from ..trace_writer import user_line
from ..user_code import is_users

MOST_CALLS = 20_000  # of any function, where the time is limited: each costs some microseconds
GENERATED = "<string>"  # methods of named tuples and dataclasses, and `python -c`


def _is_written_down(file: str) -> bool:
    """Whether it is a file of the user's own, and no code that the standard library has compiled from a text."""
    return file != GENERATED and is_users(file)


class Writes:
    """Watches what it is given until `settle`; `take` tells which lines changed it, in the order in which they ran.

    With `most_seconds` it watches no longer after so many of the thread's processor time, which a busy host or a wait does not
    use up, nor after `MOST_CALLS` calls of whatever function.
    """

    def __init__(
        self, observing: Callable[[Callable[[], None]], Callable[[], None]], *, most_seconds: float | None = None
    ) -> None:
        self._look = observing(self._compare)
        self._most_seconds = most_seconds
        self._until = 0.0
        self._calls_left = 0
        self._pid = 0
        self._watched: dict[str, Callable[[], object]] = {}
        self._held: dict[str, object] = {}
        self._found: dict[str, list[SourceLine]] = {}
        self._at: SourceLine | None = None
        self._frames: list[FrameType] = []
        self.ended_early = False
        """Whether the last watch ended before `settle` was called, or did not begin."""

    def watch(self, watched: Mapping[str, Callable[[], object]]) -> None:
        """From here on note the lines that change what these give, by name."""
        self.ended_early = sys.gettrace() is not None  # a debugger's or a coverage tool's
        if self.ended_early:
            return
        self._watched = dict(watched)
        self._pid, self._calls_left = os.getpid(), MOST_CALLS
        self._until = time.thread_time() + (self._most_seconds or 0.0)
        self._held = {name: state() for name, state in watched.items()}
        self._at = user_line()
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to one's callers
        while frame is not None:
            if _is_written_down(frame.f_code.co_filename):
                frame.f_trace = self._after_line
                self._frames.append(frame)
            frame = frame.f_back
        sys.settrace(self._entered)

    def settle(self) -> None:
        """Look for the last time, and watch no longer."""
        if not self._watched:
            return
        self._stop()
        self._look()
        self._watched.clear()

    def _stop(self) -> None:
        """Take back what is ours: a debugger may have been started in the meantime."""
        if sys.gettrace() == self._entered:
            sys.settrace(None)
        for frame in self._frames:
            if frame.f_trace == self._after_line:
                frame.f_trace = None
        self._frames.clear()

    def take(self) -> dict[str, list[SourceLine]]:
        """The lines by what they changed, since this was asked last."""
        found, self._found = self._found, {}
        return found

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002 - a trace function
        if self._most_seconds is not None:
            self._calls_left -= 1
            if not self._watched or os.getpid() != self._pid:  # a forked child has it, too
                self._stop()
                return None
            if self._calls_left <= 0:
                self._end_early()
                return None
        return self._after_line if _is_written_down(frame.f_code.co_filename) else None

    def _after_line(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002 - a trace function
        if not self._watched or os.getpid() != self._pid:
            return None
        self._look()
        if self._most_seconds is not None and time.thread_time() > self._until:
            self._end_early()
            return None
        back = frame.f_back if event == "return" else frame
        if back is not None and _is_written_down(back.f_code.co_filename):
            self._at = SourceLine(back.f_code.co_filename, back.f_lineno, back.f_code.co_name)
        return self._after_line

    def _end_early(self) -> None:
        self.ended_early = True
        self.settle()

    def _compare(self) -> None:
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return  # a copy to the host would make the graph invalid
        for name, state in self._watched.items():
            now = state()
            if now != self._held[name]:
                self._held[name] = now
                lines = self._found.setdefault(name, [])
                if self._at is not None and self._at not in lines:
                    lines.append(self._at)
