"""The process between a watched job's stderr and ours. It survives us; while we live, we replace it where it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ddpdoctor.launch.private_directory import PrivateDirectory
from ddpdoctor.launch.subreaper import at_the_end_of_its_parent

PROGRAM = Path(__file__).with_name("stderr_tee.py")
RESTART_SECONDS = 1.0
SOUND_SECONDS = 10.0  # one that lived for so long has not failed by itself
MOST_FAILURES = 10  # in a row; meanwhile nobody empties the job's stderr, and who writes to it is held up


class Companion:
    """Runs stderr_tee.py with `stderr`, the reading end of the job's stderr, which is ours from now on.

    `mark` is the variable by which it knows the job's processes, where it is to end them after us, else empty.
    """

    def __init__(self, stderr: int, tail: Path, folder: PrivateDirectory, mark: str) -> None:
        self._stderr = stderr
        self._tail = tail
        self._folder = folder
        self._mark = mark
        self._control = -1
        self._said = b""
        self._failures = 0
        self._begun = time.monotonic()
        self.gave_up = False
        """Whether one after the other failed, and the job's stderr was closed."""
        self._process = self._start()

    def tell(self, line: str) -> None:
        """Say that the job has this process, or that it is `done`. It is no error where the companion has left."""
        self._said += f"{line}\n".encode()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, f"{line}\n".encode())

    def keep_alive(self) -> None:
        """Continue it where somebody has stopped it, and start another one where it was killed or failed."""
        if self._stderr < 0:
            return
        code = self._process.poll()
        if code is None:
            if _is_stopped(self._process.pid):
                self._process.send_signal(signal.SIGCONT)
        elif code != 0:
            self._start_another()
        else:  # the job has closed its stderr, or ours is closed: then the job must find its own closed too
            self._close_stderr()

    def wait(self, seconds: float) -> None:
        """Wait until all that the job wrote has arrived, or for so long where a process of the job still writes."""
        self.keep_alive()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)

    def leave(self) -> None:
        """Let go of it. It ends with the last process that writes to the job's stderr."""
        self.keep_alive()
        self._close_stderr()
        os.close(self._control)

    def _start_another(self) -> None:
        """At most one a second: where each one fails, as without memory, this must not keep the machine busy too.

        Where each one goes on to fail, the job's stderr is closed: the job must not wait for ever for somebody to read it.
        """
        now = time.monotonic()
        if self._failures and now < self._begun + RESTART_SECONDS:
            return
        self._failures = 1 if now >= self._begun + SOUND_SECONDS else self._failures + 1
        if self._failures > MOST_FAILURES:
            self.gave_up = True
            self._close_stderr()
            return
        self._begun = now
        before = self._control
        try:
            self._process = self._start()
        except (OSError, subprocess.SubprocessError):  # no process can be started now
            return
        os.close(before)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, self._said)

    def _start(self) -> subprocess.Popen[bytes]:
        theirs, ours = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(self._tail), str(theirs), *filter(None, [self._mark])],
                stdin=self._stderr,
                pass_fds=(theirs, *self._folder.keepers),
                preexec_fn=at_the_end_of_its_parent(signal.SIGCONT),  # where somebody has stopped it
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError):
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._control = ours
        return process

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1


def _is_stopped(pid: int) -> bool:
    """Whether our child has been stopped, and nobody has continued it since."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False
