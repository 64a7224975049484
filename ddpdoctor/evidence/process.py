"""What the operating system knows of a rank's process, and of a job that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ddpdoctor.evidence.frames import Frame

ChildKind = Literal["data loader worker", "subprocess"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProcess:
    """A process that a rank started; `state` as in ps: R, S, D, T, Z."""

    pid: int
    kind: ChildKind
    state: str
    command: str
    cpu_share: float | None = None
    stack: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """A rank's process over the `seconds` that it was looked at.

    `state` is the letter of ps: R running, S sleeping, D in uninterruptible IO, T stopped, t traced, Z dead but not
    collected. `cpu_share` is CPU seconds a second (above 1 with several threads), `io_bytes` what it read and wrote
    through system calls. `system_call` is the one that the main thread sits in, `waits_on` the file, socket, pipe or lock
    that this call is about, `kernel_function` where in the kernel it sleeps. None where /proc did not tell.
    """

    pid: int
    state: str
    seconds: float
    cpu_share: float | None = None
    io_bytes: int | None = None
    system_call: str | None = None
    waits_on: str | None = None
    kernel_function: str | None = None
    children: tuple[ChildProcess, ...] = ()
    command: str = ""
    started_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A job in which no rank completed a step or a collective any more.

    `began_at` is in seconds since the epoch and None where nobody watched it begin; `limit_seconds` is the patience after
    which a standstill counts as a finding.
    """

    began_at: float | None
    seconds: float | None
    limit_seconds: float | None = None


KINDS = (ProcessState, Stall)
