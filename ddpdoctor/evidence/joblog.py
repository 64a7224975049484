"""What a job's logs say that belongs to no single rank."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.ranks import RankError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """The logs that were read, and what in them tells no rank.

    `errors` are exceptions whose rank the log does not tell, in order. `said` are lines that matter: of NCCL, of the
    kernel, of C++ code. `ended_by` is the scheduler's own line where it ended the job (time limit, preemption, memory).
    `handled` are exceptions that ended nobody, as the lines after them show.
    """

    files: tuple[str, ...]
    lines: int
    launcher: str | None = None
    world_size: int | None = None
    errors: tuple[RankError, ...] = ()
    said: tuple[str, ...] = ()
    ended_by: str | None = None
    handled: tuple[RankError, ...] = ()


KINDS = (JobLog,)
