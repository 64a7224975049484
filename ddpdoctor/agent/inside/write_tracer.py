"""Which lines of the user's code write weights, gradients, optimizer state or settings: looked at after every line.

Only in the steps that a replay looks into, and for models beside the wrapped ones in a few. Nothing is read from the line
itself: what is watched is compared before and after.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from .schema.source_line import SourceLine
from .trace_writer import user_line
from .whose_code import is_users


class Writes:
    """Watches what it is given until `settle`; `take` tells which lines changed it, in the order in which they ran.

    With `most_lines` it watches no longer after so many.
    """

    def __init__(
        self, observing: Callable[[Callable[[], None]], Callable[[], None]], *, most_lines: int | None = None
    ) -> None:
        self._look = observing(self._compare)
        self._most_lines = most_lines
        self._lines_left = 0
        self._watched: dict[str, Callable[[], object]] = {}
        self._held: dict[str, object] = {}
        self._found: dict[str, list[SourceLine]] = {}
        self._at: SourceLine | None = None
        self._frames: list[FrameType] = []

    def watch(self, watched: Mapping[str, Callable[[], object]]) -> None:
        """From here on note the lines that change what these give, by name."""
        if sys.gettrace() is not None:  # a debugger's or a coverage tool's
            return
        self._watched = dict(watched)
        self._lines_left = self._most_lines or 0
        self._held = {name: state() for name, state in watched.items()}
        self._at = user_line()
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to one's callers
        while frame is not None:
            if is_users(frame.f_code.co_filename):
                frame.f_trace = self._after_line
                self._frames.append(frame)
            frame = frame.f_back
        sys.settrace(self._entered)

    def settle(self) -> None:
        """Look for the last time, and watch no longer."""
        if not self._watched:
            return
        sys.settrace(None)
        for frame in self._frames:
            frame.f_trace = None
        self._frames.clear()
        self._look()
        self._watched.clear()

    def take(self) -> dict[str, list[SourceLine]]:
        """The lines by what they changed, since this was asked last."""
        found, self._found = self._found, {}
        return found

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002 - a trace function
        return self._after_line if is_users(frame.f_code.co_filename) else None

    def _after_line(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002 - a trace function
        if not self._watched:  # they are many, and enough has been seen
            return None
        self._look()
        if self._most_lines is not None:
            self._lines_left -= 1
            if self._lines_left <= 0:
                self.settle()
                return None
        back = frame.f_back if event == "return" else frame
        if back is not None and is_users(back.f_code.co_filename):
            self._at = SourceLine(back.f_code.co_filename, back.f_lineno, back.f_code.co_name)
        return self._after_line

    def _compare(self) -> None:
        for name, state in self._watched.items():
            now = state()
            if now != self._held[name]:
                self._held[name] = now
                lines = self._found.setdefault(name, [])
                if self._at is not None and self._at not in lines:
                    lines.append(self._at)
