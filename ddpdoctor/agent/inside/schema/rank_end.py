"""The format of the files about how a process of the job ended, and of what the agent in it could not do.

`PID.error` holds one `RankFailure`; `PID.threads` a `ThreadFailure` a line; `exits`, which all processes of the job append to,
an `ExitCode` a line; `PID.left` a `Left`; `PID.gave-up` a `GaveUp` a line. All are JSON.
"""

from typing import NamedTuple

from .error import Error
from .source_line import SourceLine

COMPARING = "comparing replicas"
"""`GaveUp.what` of a rank that writes nothing more into its training trace."""


class RankFailure(NamedTuple):
    """The first error that ended the process."""

    at: float
    """When it was recorded, in seconds since the epoch."""
    error: Error
    """What the process was raising, or handling as it called an exit, with its stack."""


class ThreadFailure(NamedTuple):
    """An error that ended a thread of the process, which went on itself."""

    thread: str
    """The name of the thread."""
    at: float
    """When it was recorded, in seconds since the epoch."""
    error: Error
    """The exception that left the thread, with its stack."""


class ExitCode(NamedTuple):
    """The exit code of a process, as its parent collected it."""

    pid: int
    """The process that ended."""
    code: int
    """Its exit code, or -N for signal N."""
    at: float
    """When it was collected, in seconds since the epoch."""
    parent: int
    """The process that collected it."""


class Left(NamedTuple):
    """The interpreter reached its end in order, or by `os._exit`, whatever the exit code."""

    at: float
    """When, in seconds since the epoch."""
    called: tuple[SourceLine, ...] = ()
    """The stack of the call of `sys.exit`, `exit` or `os._exit` that ended it without a failure, innermost first; or empty."""


class GaveUp(NamedTuple):
    """Something that the agent could not do."""

    rank: int | str
    """The rank, or what RANK says where the process has not joined; `?` where nothing says it."""
    what: str
    """What it could not do."""
    why: str
    """The error that kept it from it."""
