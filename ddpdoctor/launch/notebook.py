"""Run a function that was written in a notebook cell on several ranks."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.launch.guarded_process import run
from ddpdoctor.launch.launch_failure import why_ranks_failed
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.launch.ranks import current_launch, our_file, ranks_command

T = TypeVar("T")


class RanksFailedError(DdpdoctorError):
    """A rank raised an error, or the ranks hung; the message holds the verdict of `ddpdoctor watch`, then all tracebacks."""


def notebook_launch(
    function: Callable[..., T],
    *arguments: Any,  # noqa: ANN401 - the function's own
    nproc: int = 2,
    deadline_seconds: float = float("inf"),
    **named: Any,  # noqa: ANN401
) -> T:
    """What `function(*arguments, **named)` returns on rank 0 of `nproc` ranks, each a process of its own.

    The function may be defined in a cell and use others that are: it travels by value (cloudpickle). The ranks are started
    on a free port, find RANK, WORLD_SIZE and the rest in their environment, and call `init_process_group` themselves. CUDA
    may have been used in the notebook before. What the ranks print is printed when they have ended; none outlives the call.
    They run under `ddpdoctor watch --kill-on-hang`: ranks that hang are ended.

    Raises:
        RanksFailedError: a rank raised, or the ranks hung; the message holds the verdict, the root cause first, and the traceback
            of each rank that raised.
        UsageError: it is called inside a rank, `nproc` is out of range, or cloudpickle is not installed.
    """
    if current_launch() is not None:
        raise UsageError(
            "notebook_launch was called inside a rank that it or a launcher started",
            hint='call it from the notebook only; in a script put it under `if __name__ == "__main__":`',
        )
    try:
        import cloudpickle
    except ImportError:
        raise UsageError("notebook_launch needs cloudpickle", hint="pip install 'ddpdoctor[notebook]'") from None
    with private_directory() as folder:
        there = folder.path
        (there / "call.pickle").write_bytes(cloudpickle.dumps((function, arguments, named)))
        command, env = ranks_command(our_file("probes", "notebook_rank.py"), [str(there)], nproc=nproc, logs=str(there))
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # what the cell could import, a rank can
        verdict = there / "verdict.txt"
        ended = run([*_watched(verdict), *command], deadline_seconds=deadline_seconds, env=env, folder=folder)
        sys.stdout.write(ended.stdout)
        tracebacks = [path.read_text() for path in sorted(there.glob("rank*.txt"))]
        result = there / "result.pickle"
        if tracebacks or ended.code or not result.exists():
            reason = verdict.read_text() if verdict.exists() else why_ranks_failed(ended, "the function")
            raise RanksFailedError("\n".join([reason, *tracebacks]))
        return cast(T, pickle.loads(result.read_bytes()))  # noqa: S301 - written by our own rank, from the caller's own function


def _watched(verdict: Path) -> list[str]:
    """The command that watches the ranks and leaves the report in `verdict`."""
    return [sys.executable, "-I", "-m", "ddpdoctor", "watch", "--kill-on-hang", "--output", str(verdict), "--"]
