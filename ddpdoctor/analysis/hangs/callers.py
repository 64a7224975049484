"""From where the function of a line was called, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from ddpdoctor.evidence.frames import Frame

MOST = 4


def called_in(lines: Sequence[Frame]) -> str:
    """`, called in put (cache.py:43), load (data.py:71)`: the nearest callers of the last of these, which are outermost first."""
    callers = [
        f"{frame.function} ({PurePath(frame.file).name}:{frame.line})"
        for frame in reversed(lines[:-1])
        if frame.function != "<module>"
    ]
    return f", called in {', '.join(callers[:MOST])}" if callers else ""
