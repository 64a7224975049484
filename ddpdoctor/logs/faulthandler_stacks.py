"""Reads the tracebacks that `faulthandler` writes: PyTorch's worker server answers with them, and so does a crash."""

from __future__ import annotations

import re

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Thread

_THREAD_LINE = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]+(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_FRAME_LINE = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')


def from_faulthandler(text: str) -> tuple[Thread, ...]:
    """The threads in what `faulthandler` (the worker server's `dump_traceback`) wrote; the one with `<module>` is main."""
    found: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if head := _THREAD_LINE.match(line):
            found.append((head["name"] or "", []))
        elif found and (frame := _FRAME_LINE.match(line)):
            found[-1][1].append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"]))
    threads = [(name, frames) for name, frames in found if frames]
    main = len(threads) - 1  # the newest thread is written first, and the main thread is the oldest
    return tuple(
        Thread(name="MainThread" if index == main else name, frames=tuple(frames), main=index == main)
        for index, (name, frames) in enumerate(threads)
    )
