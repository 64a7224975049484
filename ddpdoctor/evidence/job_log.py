"""What a job's logs say that belongs to no single rank."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.ranks import RankError, RankExit


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLine:
    """One line of a log that shows a failure by itself: an error, an exit code, a signal, a broken connection."""

    text: str
    """The line without the prefixes of launchers and collectors."""
    rank: int | None = None
    """The rank that wrote it; None where the log does not show it."""
    number: int = 0
    """Its number in its file, from 1."""
    file: str = ""
    """The path of its file, as it was given; empty where it was not read from one."""
    at: float | None = None
    """Seconds since the beginning of the year, as the line's own clock has it; None where it shows no time."""
    clock: str = ""
    """The same as the line shows it, such as `09:31:44`; empty where it shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """The logs that were read, and what in them tells no rank."""

    files: tuple[str, ...]
    """The paths, as they were given."""
    lines: int
    """How many lines were read."""
    launcher: str | None = None
    """Who started the ranks, where a line of it is in the log."""
    world_size: int | None = None
    """The number of ranks, where a line shows it."""
    errors: tuple[RankError, ...] = ()
    """Exceptions whose rank the log does not show, in order."""
    cut: tuple[RankError, ...] = ()
    """Tracebacks of no known rank that end before their exception, but for a launcher's own."""
    ends: tuple[RankExit, ...] = ()
    """Ends of processes of the job of which the log does not show the rank."""
    said: tuple[str, ...] = ()
    """Lines of no known rank that show a failure."""
    failure_lines: tuple[FailureLine, ...] = ()
    """Lines of all ranks and of none that show a failure, in order, each form of line once for each rank."""
    remarks: tuple[str, ...] = ()
    """Lines that show no failure but explain one: how the rendezvous was set up, a process that believes to be alone."""
    ended_by: str | None = None
    """The line that shows that a scheduler, a person or a closed terminal ended the job."""
    signal: int | None = None
    """The number of the signal that the launcher received, where a line shows it."""
    closed: int = 0
    """How many processes the launcher ended because of another one's failure, as far as lines show it."""
    out_of_memory: str | None = None
    """The line of the kernel, the scheduler or the container runtime that killed for memory."""
    handled: tuple[RankError, ...] = ()
    """Exceptions that ended nobody, as the lines after them show."""
    at_work: bool = True
    """Whether a line shows the job at work or at a clean end."""
    announced: tuple[int, ...] = ()
    """The ranks that Lightning announced at the last start (`GLOBAL_RANK: 1, MEMBER: 2/4`), in order; one may be there twice."""
    of_a_job: bool = True
    """Whether a line shows that these are the logs of a job at all."""


KINDS = {JobLog: "job log"}
