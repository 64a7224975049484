"""Stacks that a rank has met: one walk knows a stack again, and what was found out from its lines is kept with it.

A stack is walked through at each training forward and each collective of the job, so that a frame takes as little as may be.
"""

from __future__ import annotations

from types import CodeType, FrameType

MOST_FRAMES = 256  # of one stack, innermost first
MOST_STACKS = 1 << 12  # that are remembered: a job may make code anew at every step


class Stack:
    """The functions of one stack and the line that each is in, innermost first."""

    __slots__ = ("counter", "lines", "place")

    def __init__(self, lines: tuple[tuple[CodeType, int], ...]) -> None:
        self.lines = lines
        self.place: int | None = None
        """What `CallLog.place_of` returns for it, once it was asked."""
        self.counter: tuple[int, tuple[str, ...]] | None = None
        """What `Turns` reads in which frame, once it was asked."""


class KnownStacks:
    """Knows stacks again by their functions and the instruction that each is at."""

    def __init__(self) -> None:
        # by the ids of code, which cost less than its hash; the code stays alive
        self._met: dict[tuple[int, ...], Stack] = {}

    def of(self, frame: FrameType) -> Stack:
        """The stack whose innermost frame is `frame`."""
        here: list[int] = []
        outer: FrameType | None = frame
        left = MOST_FRAMES
        while outer is not None and left:
            here += (id(outer.f_code), outer.f_lasti)
            outer = outer.f_back
            left -= 1
        key = tuple(here)
        return self._met.get(key) or self._meet(key, frame)

    def _meet(self, key: tuple[int, ...], frame: FrameType) -> Stack:
        lines: list[tuple[CodeType, int]] = []
        outer: FrameType | None = frame
        while outer is not None and len(lines) < MOST_FRAMES:
            lines.append((outer.f_code, outer.f_lineno))
            outer = outer.f_back
        if len(self._met) >= MOST_STACKS:
            self._met.clear()
        stack = self._met[key] = Stack(tuple(lines))
        return stack
