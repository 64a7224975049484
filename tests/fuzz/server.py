"""Answers command lines by forks of a process that has imported everything."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path


def serve() -> None:
    """For each line on stdin (`SECONDS NUL FOLDER NUL ARGUMENTS...`) run the command there; answers its exit code and seconds."""
    from ddpdoctor import cli

    for line in sys.stdin:
        limit, folder, *arguments = line.rstrip("\n").split("\0")
        start = time.monotonic()
        pid = os.fork()
        if not pid:
            _child(float(limit), Path(folder))
            code = 4
            try:
                cli.output.prepare()
                code = cli.run(arguments)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.__stdout__.write(f"{code} {time.monotonic() - start:.3f}\n")
        sys.__stdout__.flush()


def _child(limit: float, folder: Path) -> None:
    """In the fork: its output goes to a file, its time of a processor ends."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
    os.chdir(folder)
    output = os.open(".output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
