"""A user's own command, run under observation: its signals, its stdin and its output are its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ddpdoctor.errors import UsageError
from ddpdoctor.launch.companion import Companion
from ddpdoctor.launch.private_directory import PrivateDirectory
from ddpdoctor.launch.process_tree import end
from ddpdoctor.launch.subreaper import at_the_end_of_its_parent
from ddpdoctor.launch.waiting import wait_for_end

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
GRACE_SECONDS = 5.0
DRAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Received:
    """A signal that reached us and went on to the job."""

    signal: signal.Signals
    """One of `PASSED_ON`."""
    at: float
    """When it came, in seconds since the epoch."""


class ObservedJob:
    """The running command. Its stderr passes through a companion process that keeps the tail and survives us."""

    def __init__(
        self, process: subprocess.Popen[bytes], companion: Companion, mark: str, tail: Path, received: list[Received]
    ) -> None:
        self._process = process
        self._companion = companion
        self._mark = mark
        self._tail = tail
        self.received = received

    @property
    def pid(self) -> int:
        """The process of the command itself."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """The command's exit code (-N for signal N) once it has ended, or None after `seconds`."""
        self._companion.keep_alive()
        return wait_for_end(self._process, seconds)

    def end(self) -> None:
        """End the whole job, loader workers and subprocesses included."""
        end(self.pid, self._mark, grace_seconds=GRACE_SECONDS)

    def stderr_files(self) -> list[Path]:
        """The files that hold the last megabyte or two of what the job wrote to its stderr, the older one first."""
        return [path for path in (self._tail.with_suffix(".old"), self._tail) if path.exists()]

    @property
    def has_lost_stderr(self) -> bool:
        """Whether the job's stderr was closed because no process could be kept running that reads it."""
        return self._companion.gave_up

    def drain(self) -> None:
        """Wait until what the job wrote last has arrived, or for two seconds where a process it left still writes."""
        self._companion.wait(DRAIN_SECONDS)


@contextlib.contextmanager
def observe(
    command: Sequence[str], *, environ: Mapping[str, str], mark: str, folder: PrivateDirectory, die_with_us: bool
) -> Iterator[ObservedJob]:
    """Start `command` with `environ` added; signals that reach us go on to it while the context lasts.

    `mark` is a variable of `environ` as `NAME=value`, by which every process of the job is known. The tail of its stderr is
    kept in `folder`, which lasts at least as long as the job writes.
    It shares our terminal, process group, stdin and stdout. With `die_with_us` it is ended when we are killed.

    Raises:
        UsageError: program not found, or it may not be run.
    """
    ours, theirs = _channel()
    tail = folder.path / "stderr"
    companion = Companion(ours, tail, folder, mark if die_with_us else "")
    try:
        received: list[Received] = []
        with _passing_signals_on(received) as begin:
            process = _start(command, environ, theirs, die_with_us=die_with_us)
            begin(process.pid)
            os.close(theirs)
            theirs = -1
            companion.tell(str(process.pid))
            yield ObservedJob(process, companion, mark, tail, received)
            companion.tell("done")
    finally:
        if theirs >= 0:
            os.close(theirs)
        companion.leave()


def _start(
    command: Sequence[str], environ: Mapping[str, str], stderr: int, *, die_with_us: bool
) -> subprocess.Popen[bytes]:
    """Start it. With `die_with_us` the kernel ends it after us, even where the companion was killed as well."""
    before_exec = at_the_end_of_its_parent(signal.SIGTERM) if die_with_us else None
    try:
        return subprocess.Popen(command, env={**os.environ, **environ}, stderr=stderr, preexec_fn=before_exec)
    except FileNotFoundError:
        script = f"--nproc-per-node N {command[0]}" if command[0].endswith(".py") else "..."
        raise UsageError(
            f"{command[0]}: program not found",
            hint=f"write the command as in your shell: `ddpdoctor watch -- torchrun {script}`",
        ) from None
    except OSError as error:
        raise UsageError(
            f"{command[0] or 'a command without a name'} cannot be started: {error.strerror}",
            hint="give a program that may be run, or its interpreter before it: `ddpdoctor watch -- python train.py`",
        ) from None


def _channel() -> tuple[int, int]:
    """Two ends for the job's stderr: a pseudo terminal where ours is a terminal, so that nothing looks different."""
    if not os.isatty(2):
        return os.pipe()
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # what the job writes must arrive as it is
    with contextlib.suppress(OSError):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(8)))
    return ours, theirs


@contextlib.contextmanager
def _passing_signals_on(received: list[Received]) -> Iterator[Callable[[int], None]]:
    """Record signals in `received` and pass them on, once the process to which they go is told; those before, then.

    Ctrl-C at a terminal reaches the job by itself, as it shares our process group: it is not sent twice.
    """
    target: list[int] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.append(Received(signal.Signals(number), time.time()))
        if not target:
            early.append(number)
            return
        if number == signal.SIGINT and _at_a_terminal():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(target[0], number)

    def begin(pid: int) -> None:
        target.append(pid)
        for number in early:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield begin
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_a_terminal() -> bool:
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
