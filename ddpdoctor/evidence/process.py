"""What the operating system knows of a rank's process, and of a job that hangs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ddpdoctor.evidence.frames import Frame

ChildKind = Literal["data loader worker", "subprocess"]


A_PIPE, A_NAMED_PIPE = "a pipe", "the named pipe"
"""How `ProcessState.waits_on` begins for a pipe between two processes, and for one that has a path, which follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProcess:
    """A process that a rank started."""

    pid: int
    """Its process id."""
    kind: ChildKind
    """Whether it is a worker of a DataLoader."""
    state: str
    """As in ps: R, S, D, T, Z."""
    command: str
    """Its command line."""
    cpu_share: float | None = None
    """CPU seconds per second, with those of the processes below it."""
    stack: tuple[Frame, ...] = ()
    """Its main thread's frames, innermost first; empty where nobody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterpart:
    """A process that can end the wait of a rank: it holds the lock, or has the other end of the pipe."""

    pid: int
    """Its process id."""
    state: str
    """As in ps: R, S, D, T, Z."""
    command: str
    """Its command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """A rank's process over the time in which it was observed. None stands for "/proc does not tell"."""

    pid: int
    """Its process id."""
    state: str
    """The letter of ps: R running, S sleeping, D in uninterruptible IO, T stopped, t traced, Z dead but not collected."""
    seconds: float
    """How long it was observed."""
    cpu_share: float | None = None
    """CPU seconds per second, above 1 with several threads."""
    io_bytes: int | None = None
    """The bytes that it read and wrote through system calls."""
    system_call: str | None = None
    """The system call that the main thread is in."""
    waits_on: str | None = None
    """The file, socket, pipe or lock that this call is about."""
    counterparts: tuple[Counterpart, ...] = ()
    """Who holds that lock, or has the other end of that pipe; empty also where nobody asked."""
    kernel_function: str | None = None
    """The kernel function in which it sleeps."""
    children: tuple[ChildProcess, ...] = ()
    """The processes that it started."""
    command: str = ""
    """Its command line."""
    started_at: float | None = None
    """When it began, in seconds since the epoch."""
    wakes: int | None = None
    """How often its main thread went to sleep again while nobody interrupted it: 0 of a thread that stayed in one wait, or that
    never slept; None where that was not counted, as of a process that handles the signal of a timer, and in cases of older
    versions."""
    sockets: tuple[int, ...] = ()
    """The kernel's numbers of the socket that its main thread waited for, or of all that it has where that is unknown."""
    connection_bytes: int | None = None
    """The bytes that moved over these sockets from the first look to the last; None where none is a TCP connection that lasted so
    long, and where that was not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A job in which no rank has completed a step or a collective for some time."""

    seconds: float | None
    """For how long; None where nobody watched it begin."""


KINDS = {
    ProcessState: "process state",
    Stall: "observed stall",
}
