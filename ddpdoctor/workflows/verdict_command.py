"""Runs the command of `--on-verdict` with each verdict: a page, a chat message, `scontrol`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass, field

LONGEST_SECONDS = 60.0


@dataclass(slots=True)
class VerdictCommand:
    """Runs a command in a shell, with the report as JSON on its stdin; the job and the watch do not wait for it.

    `DDPDOCTOR_EVENT` is `verdict` or `resumed`. What the command prints goes to stderr, as stdout is the job's.
    """

    command: str
    """The text of `--on-verdict`, for `/bin/sh -c`."""
    failures: list[str] = field(default_factory=list)
    """Why a run of it was in vain."""
    _threads: list[threading.Thread] = field(default_factory=list)

    def run(self, event: str, document: str) -> None:
        """Start it."""
        thread = threading.Thread(target=self._run, args=(event, document), daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish(self) -> None:
        """Wait for the runs that were started, each at most its time."""
        for thread in self._threads:
            thread.join(LONGEST_SECONDS + 5.0)

    def _run(self, event: str, document: str) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", self.command],
            stdin=subprocess.PIPE,
            stdout=2,
            env={**os.environ, "DDPDOCTOR_EVENT": event},
            start_new_session=True,
            text=True,
        )
        try:
            process.communicate(document, timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.failures.append(f"--on-verdict: `{self.command}` was ended after {LONGEST_SECONDS:.0f} s")
            return
        if process.returncode != 0:
            self.failures.append(f"--on-verdict: `{self.command}` ended with exit code {process.returncode}")
