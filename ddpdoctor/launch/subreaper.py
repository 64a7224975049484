"""Runs one command and sees to it that nothing it started outlives the process that asked for it.

A program of its own, standard library only: `python -I -S subreaper.py GRACE_SECONDS PARENT_PID COMMAND...`. It is the
reaper of every process below it (`PR_SET_CHILD_SUBREAPER`), so a worker that made its own session, or whose parent
died, is still found. It ends the whole tree when the command ends, on SIGTERM or SIGINT, and when its own parent dies,
after SIGKILL too: for that it asks for SIGCONT (`PR_SET_PDEATHSIG`), which also wakes it where somebody has stopped it.
Where it is killed itself, the kernel sends SIGTERM to the command. Exit code: the command's, or 128 + the signal that ended it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.02
UNKILLABLE_SECONDS = (
    10.0  # after SIGKILL: what still lives then waits in the kernel, for a disk or a driver that does not answer
)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndRequested(Exception):  # noqa: N818 - it is a request, not an error
    """Somebody wants the tree to end."""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code once every process below it is gone."""
    grace_seconds, parent, command = float(arguments[0]), int(arguments[1]), arguments[2:]
    code = 128 + signal.SIGTERM
    try:
        for number in ENDING:
            signal.signal(number, _end)
        signal.signal(signal.SIGCONT, lambda number, frame: _end(number, frame) if os.getppid() != parent else None)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
        if os.getppid() == parent:
            code = _run(command)
        _ignore_further_requests()
    except EndRequested:
        pass
    _end_tree(grace_seconds)
    return code


def at_the_end_of_its_parent(number: signal.Signals) -> Callable[[], None]:
    """For `preexec_fn`: the kernel sends this signal to the child when the thread that starts it ends, by SIGKILL too."""
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def ask_the_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it has ended already, and the kernel signals only later ends
            os._exit(128 + signal.SIGTERM)

    return ask_the_kernel


def _end(_number: int, _frame: FrameType | None) -> None:
    """Ask once: a second request must not interrupt the end of the tree."""
    _ignore_further_requests()
    raise EndRequested


def _ignore_further_requests() -> None:
    """By a handler that does nothing: with SIG_IGN, Python raises OSError for a signal that came a moment before."""
    for number in (*ENDING, signal.SIGCONT):
        signal.signal(number, lambda _number, _frame: None)


def _run(command: list[str]) -> int:
    try:
        child = subprocess.Popen(command, preexec_fn=at_the_end_of_its_parent(signal.SIGTERM))
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = 0
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _end_tree(grace_seconds: float) -> None:
    deadline = time.monotonic() + grace_seconds
    asked: set[int] = set()
    while (alive := _descendants()) and time.monotonic() < deadline + UNKILLABLE_SECONDS:
        for pid in alive:
            if time.monotonic() > deadline:
                _signal(pid, signal.SIGKILL)
            elif pid not in asked:
                asked.add(pid)
                _signal(pid, signal.SIGTERM)
                _signal(pid, signal.SIGCONT)
        time.sleep(POLL_SECONDS)


def _descendants() -> list[int]:
    """Every living process below this one; the dead among its own children are reaped on the way."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    level = [os.getpid()]
    while level:
        level = [child for pid in level for child in children.get(pid, ())]
        found.extend(level)
    return found


def _processes() -> Iterator[tuple[int, int]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{entry.name}/stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] != "Z":
                    yield int(entry.name), int(fields[1])


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
