"""Answers command lines in a fork of a process that has imported everything, and another fork where that one ended."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

ANSWER_SECONDS = 600.0  # by the clock, on a host that does other things as well
INPUTS_A_WORKER = 200  # what one input leaves behind in the process must not help or hurt thousands of others
# Healthy inputs: what is imported or compiled late is there before the first fork.
WARM_UP = (
    ("train.py", "import torch\n"),
    ("job.log", "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x\n"),
)


def serve() -> None:
    """For each line on stdin (`[SECONDS, FOLDER, ARGUMENTS...]`) run the command there; answers how it ended."""
    _warm_up()
    worker = None
    for line in sys.stdin:
        if worker is None:
            worker = _Worker()
        answer = worker.ask(line)
        if worker.is_spent:
            worker.end()
            worker = None
        print(answer, file=sys.__stdout__, flush=True)
    if worker is not None:
        worker.end()


def _warm_up() -> None:
    from ddpdoctor import cli

    saved, here = [os.dup(stream) for stream in (1, 2)], Path.cwd()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-fuzz-") as folder:
        os.chdir(folder)
        for name, text in WARM_UP:
            Path(name).write_text(text, encoding="utf-8")
        for arguments in (
            ["diagnose", "job.log"],
            ["lint", "train.py"],
            ["explain", "job.log"],
            ["verify-sync", "a", "b"],
        ):
            cli.run(arguments)
        os.chdir(here)
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, before in zip((1, 2), saved, strict=True):
        os.dup2(before, stream)
        os.close(before)


class _Worker:
    """A fork that answers one line after the other, until it ends."""

    def __init__(self) -> None:
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        self._answered = 0
        self._has_ended = False
        self._pid = os.fork()
        if not self._pid:
            os.close(self._to)
            os.close(self._from)
            _work(theirs, ours)
        os.close(theirs)
        os.close(ours)

    def ask(self, line: str) -> str:
        """`EXIT_CODE SECONDS BYTES`: of a processor, and of memory; -N where signal N ended it, -9 without an answer."""
        os.write(self._to, line.encode("utf-8", "surrogateescape"))
        self._answered += 1
        if not select.select([self._from], [], [], ANSWER_SECONDS)[0]:
            os.kill(self._pid, signal.SIGKILL)
        answer = os.read(self._from, 100).decode()
        if answer:
            return answer
        _, status, used = os.wait4(self._pid, 0)
        self._has_ended = True
        return f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime:.3f} {used.ru_maxrss << 10}"

    @property
    def is_spent(self) -> bool:
        return self._has_ended or self._answered >= INPUTS_A_WORKER

    def end(self) -> None:
        os.close(self._to)
        if not self._has_ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        os.close(self._from)


def _work(requests: int, answers: int) -> None:
    """In the fork: its output goes to a file, its time of a processor is limited for each input."""
    from ddpdoctor import cli
    from tests.fuzz import readers  # noqa: F401 - imported before the first input, whose time is measured

    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    cli.output.prepare()
    try:
        with os.fdopen(requests, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            for line in lines:
                limit, folder, *arguments = json.loads(line)
                os.chdir(folder)
                output = os.open(".output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(output, 1)
                os.dup2(output, 2)
                os.close(output)
                before, memory = _seconds(), _memory_from_now_on()
                end = int(before + float(limit)) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
                code = _ran(arguments)
                sys.stdout.flush()
                sys.stderr.flush()
                os.write(answers, f"{code} {_seconds() - before:.3f} {_memory('VmHWM') - memory}".encode())
    finally:
        os._exit(4)


def _ran(arguments: list[str]) -> int:
    """The exit code of a command, or of a reader, in the environment that the input gives."""
    from ddpdoctor import cli
    from tests.fuzz.message_inputs import environ_of
    from tests.fuzz.readers import read

    if arguments[:1] and arguments[0].startswith("@"):
        return read(arguments)
    given = environ_of(Path(".environ").read_bytes()) if Path(".environ").exists() else {}
    with mock.patch.dict(os.environ, given):
        return cli.run(arguments)


def _memory_from_now_on() -> int:
    """The resident bytes of this process; the highest number that the kernel keeps is theirs from now on.

    A kernel or a sandbox without `clear_refs` keeps the highest number since the beginning: growth beyond that is measured.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _memory("VmHWM")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(f"{name}:")), 0)


def _seconds() -> float:
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + below.ru_utime + below.ru_stime
