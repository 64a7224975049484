"""Run one external program under a deadline; whatever becomes of it, and of us, nothing of it stays behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from ddpdoctor.launch import process_tree
from ddpdoctor.launch.private_directory import PrivateDirectory
from ddpdoctor.launch.waiting import wait_for_end

SUBREAPER = Path(__file__).with_name("subreaper.py")
BATCH = Path(__file__).with_name("program_batch.py")
POLL_SECONDS = 0.05  # between two looks at a program with a deadline
START_SECONDS = 0.5  # before one more program of a batch is started, at most
GRACE_SECONDS = 3.0  # torchrun needs about one second to pass SIGTERM on and leave
CONTINUE_SECONDS = 0.5  # between two attempts to continue a subreaper that somebody has stopped
KEPT_LINES = 400
TREE = "DDPDOCTOR_TREE"
_TORCHS_OWN = re.compile(r"(?:\[rank\d+\]:\s?)?\[[IWE]\d+ |Exception raised from |frame #|<omitting")
_NUMBERS = itertools.count()
_MARKS: WeakKeyDictionary[subprocess.Popen[str], str] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """How a program ended."""

    code: int
    """Its exit code; 128 + N for signal N."""
    stdout: str
    """The last lines that it wrote there, as many as the caller keeps."""
    stderr: str
    """As `stdout`."""
    timed_out: bool
    """Whether the deadline ended it."""
    seconds: float
    """From its start to its end."""

    @property
    def answers(self) -> dict[str, Any]:
        """The keys of all JSON objects that it printed, one per line."""
        answers: dict[str, Any] = {}
        for line in self.stdout.splitlines():
            if line.startswith("{"):
                answers.update(json.loads(line))
        return answers

    @property
    def last_words(self) -> str | None:
        """The last line on its stderr that may be a reason, or None: torch's C++ log and stack are none."""
        lines = map(str.strip, reversed(self.stderr.splitlines()))
        return next((line for line in lines if line and not _TORCHS_OWN.match(line)), None)


def run(
    command: Sequence[str],
    *,
    deadline_seconds: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    folder: PrivateDirectory | None = None,
    poll: Callable[[], bool | None] | None = None,
    kept_lines: int = KEPT_LINES,
) -> ProgramEnd:
    """Run `command` to its end or to the deadline, then end every process that it started.

    `env` is added to this process's environment. `folder` lasts at least as long as the program, also where we are killed.
    `poll` is called about every 50 ms while the program runs, in this thread; when it answers True, the program is ended like
    one past its deadline. Only the last `kept_lines` lines of each stream are kept.
    """
    start = time.monotonic()
    process = start_guarded(command, env=env, cwd=cwd, folder=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    streams = [_Tail(process.stdout, kept_lines), _Tail(process.stderr, kept_lines)]
    timed_out = False
    try:
        while process.poll() is None:
            timed_out = time.monotonic() - start > deadline_seconds or bool(poll is not None and poll())
            if timed_out:
                break
            wait_for_end(process, POLL_SECONDS)
    finally:
        end(process)
    if poll is not None:
        poll()
    stdout, stderr = (stream.text() for stream in streams)
    return ProgramEnd(
        code=process.returncode, stdout=stdout, stderr=stderr, timed_out=timed_out, seconds=time.monotonic() - start
    )


def run_each(commands: Sequence[Sequence[str]], *, deadline_seconds: float) -> tuple[ProgramEnd, ...]:
    """Run many short programs, a few at a time, each to its end or to its own deadline: their ends, in the order of `commands`.

    They share one subreaper and one interpreter, which cost more than a program such as py-spy. All of what they print is kept.
    """
    if not commands:
        return ()
    ended = run(
        [sys.executable, "-I", "-S", str(BATCH), str(deadline_seconds), *map(json.dumps, commands)],
        deadline_seconds=deadline_seconds + START_SECONDS * len(commands) + GRACE_SECONDS,
        kept_lines=len(commands),
    )
    found = {}
    for line in ended.stdout.splitlines():
        with contextlib.suppress(ValueError):  # cut off, where the batch was ended
            number, code, stdout, stderr, seconds, timed_out = json.loads(line)
            found[number] = ProgramEnd(code=code, stdout=stdout, stderr=stderr, timed_out=timed_out, seconds=seconds)
    unfinished = ProgramEnd(code=128 + signal.SIGTERM, stdout="", stderr="", timed_out=True, seconds=ended.seconds)
    return tuple(found.get(number, unfinished) for number in range(len(commands)))


def start_guarded(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    folder: PrivateDirectory | None = None,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | None = None,
    stderr: int | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> subprocess.Popen[str]:
    """Start `command` below a subreaper (see subreaper.py). Ctrl-C at our terminal does not reach it: end it with `end`.

    Where we are killed, the subreaper ends the program; `folder` stays until then.
    """
    mark = f"{os.getpid()}-{next(_NUMBERS)}"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SUBREAPER), str(grace_seconds), str(os.getpid()), *command],
        env={**os.environ, **(env or {}), TREE: mark},
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=folder.keepers if folder is not None else (),
    )
    _MARKS[process] = f"{TREE}={mark}"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """End a guarded program with its whole tree, and wait until it is gone.

    Where somebody killed the subreaper, its tree is known by a variable that all of it inherited.
    """
    if process.poll() is None:
        process.terminate()
        while process.returncode is None:  # a second Ctrl-C must not leave the tree behind
            process.send_signal(signal.SIGCONT)  # somebody may have stopped it
            with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
                process.wait(timeout=CONTINUE_SECONDS)
            _reap(process)
    mark = _MARKS.pop(process, "")
    if process.returncode < 0 and mark:
        process_tree.end(process.pid, mark, grace_seconds=GRACE_SECONDS)


def _reap(process: subprocess.Popen[str]) -> None:
    """Take the exit status of `process` where it has ended and Popen cannot: a signal has interrupted it with its lock held."""
    if process.returncode is None:
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)


class _Tail:
    """Reads a stream in a thread, so that a talkative program never blocks, and keeps its last lines."""

    def __init__(self, stream: IO[str] | None, kept_lines: int) -> None:
        self._lines: deque[str] = deque(maxlen=kept_lines)
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._stream is not None:
            with self._stream:
                self._lines.extend(self._stream)

    def text(self) -> str:
        self._thread.join(timeout=5)
        return "".join(self._lines)
