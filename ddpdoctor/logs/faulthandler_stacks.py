"""Reads the tracebacks that `faulthandler` writes: PyTorch's worker server answers with them, and so does a crash."""

from __future__ import annotations

import re

from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.stacks import Thread

_THREAD_LINE = re.compile(
    r"^(?P<current>Current thread|Thread) 0x[0-9a-f]+(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_FRAME_LINE = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$')


def from_faulthandler(text: str) -> tuple[Thread, ...]:
    """The threads in what `faulthandler` (the worker server's `dump_traceback`) wrote; the one with `<module>` is main."""
    return tuple(thread for thread, _ in _threads(text))


def frames_of_crash(text: str) -> tuple[Frame, ...]:
    """Where the thread was that a fault ended, innermost first; the main thread, where that one runs no line of the program."""
    threads = _threads(text)
    crashed = [thread for thread, is_current in threads if is_current and users_frame(thread.frames) is not None]
    return next((thread.frames for thread in (*crashed, *(thread for thread, _ in threads if thread.main))), ())


def _threads(text: str) -> list[tuple[Thread, bool]]:
    """Each with whether it is the one that wrote."""
    found: list[tuple[str, bool, list[Frame]]] = []
    for line in text.splitlines():
        if head := _THREAD_LINE.match(line):
            found.append((head["name"] or "", head["current"] != "Thread", []))
        elif found and (frame := _FRAME_LINE.match(line)):
            found[-1][2].append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"]))
    threads = [one for one in found if one[2]]
    main = len(threads) - 1  # the newest thread is written first, and the main thread is the oldest
    return [
        (Thread(name="MainThread" if index == main else name, frames=tuple(frames), main=index == main), is_current)
        for index, (name, is_current, frames) in enumerate(threads)
    ]
