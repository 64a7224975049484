"""A process of its own in which `watch` asks rules about a healthy job: its memory ends with it.

The rules and the evidence of a job take tens of megabytes, which the watcher would keep for the weeks of a run.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass

from ddpdoctor.launch.guarded_process import end, start_guarded
from ddpdoctor.launch.ranks import our_file

FOUND = 10  # the exit code of a program that found something; any exit code but 0 makes the watcher look itself


@dataclass(slots=True)
class JudgingProcess:
    """Runs a program of `probes/` whose exit code is 0 where the rules find nothing. One runs at a time."""

    program: str
    """The name of its file."""
    _process: subprocess.Popen[str] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its answer is still to come, or to be taken."""
        return self._process is not None

    def start(self, *arguments: str) -> None:
        """Start it with `arguments`, and end the one before; nothing happens where no process or memory is left for it."""
        self.close()
        command = [sys.executable, str(our_file("probes", self.program)), *arguments]
        with contextlib.suppress(OSError):
            self._process = start_guarded(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def needs_a_look(self, within: float = 0.0) -> bool:
        """Whether it has ended by now, or `within` so many seconds, and found something or failed; true once for each start."""
        if self._process is None or not _ends(self._process, within):
            return False
        code = self._process.returncode
        self.close()
        return code != 0

    def close(self) -> None:
        """End it, where it runs."""
        if self._process is not None:
            end(self._process)
            self._process = None


def _ends(process: subprocess.Popen[str], within: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within)
    return process.returncode is not None
