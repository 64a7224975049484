"""How ranks failed: each one's own error, separated from secondary errors, the first one first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ddpdoctor.analysis.crashes.error_patterns import ErrorTable, SecondaryError
from ddpdoctor.analysis.crashes.failure import Failure
from ddpdoctor.analysis.crashes.failure_of_rank import failure_of_rank
from ddpdoctor.analysis.crashes.failures_in_lines import failures_in_lines, uncaught_exceptions
from ddpdoctor.analysis.crashes.retry_loops import without_what_was_caught
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.model import SkipCheck

SIGABRT = 6  # with it native code ends itself: where its last messages are a secondary error, so is the end
SIGKILL = 9
NO_PLACE = "the log shows no line of the user's own code"


@dataclass(frozen=True, kw_only=True)
class Failures:
    """How ranks of the job failed."""

    all: tuple[Failure, ...]
    """Every failure, the first one first."""
    finished: tuple[int, ...]
    """The ranks that ended with exit code 0."""
    log: JobLog | None
    """The job's log; None where none was given."""

    def of(self, code: str) -> tuple[Failure, ...]:
        """The failures whose error text belongs to this rule."""
        return tuple(self._by_code.get(code, ()))

    @cached_property
    def mismatched(self) -> tuple[Failure, ...]:
        """Those of ranks that gloo aborted because two different calls had met."""
        return tuple(failure for failure in self.all if failure.secondary_error is SecondaryError.MISMATCHED)

    @cached_property
    def _by_code(self) -> Mapping[str | None, Sequence[Failure]]:
        return grouped((failure.code, failure) for failure in self.all)

    def without_a_place(self, code: str) -> bool:
        """Whether exceptions in the log belong to this rule, and no line of the user's own is in any of their stacks."""
        found = [failure for failure in self.of(code) if failure.error is not None and not failure.by_launcher]
        return self.log is not None and bool(found) and all(failure.place is None for failure in found)

    @property
    def first_line(self) -> FailureLine | None:
        """The first line, by its time where all lines show one, that shows that the job failed; None where none does."""
        if self.log is None:
            return None
        lines, ended = self.log.failure_lines, self.log.ended_by
        if not self.all and not lines and ended is None:
            return None
        timed = [line for line in lines if line.at is not None]
        if timed and len(timed) == len(lines):
            return min(timed, key=lambda line: line.at or 0.0)
        if lines:
            return lines[0]
        failed = next(iter(self.all), None)
        if failed is None:
            return FailureLine(text=ended or "")
        text = failed.text or (f"exit code {failed.exit.exit_code}" if failed.exit.exit_code is not None else "")
        return FailureLine(text=text.partition("\n")[0], rank=failed.rank) if text else None

    @property
    def own(self) -> tuple[Failure, ...]:
        """Exceptions of a rank's own that no known message explains."""
        return tuple(
            failure
            for failure in self.all
            if failure.error and not failure.left and not failure.code and not failure.secondary_error
        )

    @property
    def wordless(self) -> tuple[Failure, ...]:
        """Ranks that ended with a code above 0, first of all, and of which nothing else is known than where they left."""
        is_explained = any(
            failure.code or (failure.secondary_error is None and failure.error and not failure.left)
            for failure in self.all
        )
        if is_explained or self.killed:
            return ()
        return tuple(
            failure
            for failure in self.all
            if (failure.error is None or failure.left) and failure.ended_badly and not failure.exit.ended_by_launcher
        )

    @property
    def lost(self) -> tuple[Failure, ...]:
        """Ranks that say no more than that a peer was gone."""
        return tuple(failure for failure in self.all if failure.secondary_error is SecondaryError.PEER_GONE)

    @property
    def killed(self) -> tuple[Failure, ...]:
        """Ranks that a signal ended, other than their launcher's, and that raised nothing of their own before."""
        return (*self._ended_by_signal, *self._interrupted)

    @property
    def _interrupted(self) -> tuple[Failure, ...]:
        """Ranks that SIGINT reached as Python shows it, and not their peers or their launcher, as Ctrl-C would."""
        hit = tuple(failure for failure in self.all if failure.error and failure.error.type == "KeyboardInterrupt")
        launcher = self.log is not None and self.log.signal is not None
        if launcher or len(hit) == len(self.all):
            return ()
        return tuple(failure for failure in hit if failure.rank is not None and failure.exit.signal is None)

    @property
    def _ended_by_signal(self) -> tuple[Failure, ...]:
        return tuple(
            failure
            for failure in self.all
            if failure.exit.signal is not None
            and not failure.exit.ended_by_launcher
            and (failure.error is None or failure.secondary_error is not None)
            and not (failure.exit.signal == SIGABRT and (failure.secondary_error is not None or self._aborted(failure)))
        )

    def _aborted(self, failure: Failure) -> bool:
        """Whether a watchdog may have sent it: the process has no rank, and other ranks show secondary errors."""
        return failure.rank is None and any(other.secondary_error is not None for other in self.all)


def derive(
    exits: PerRank[RankExit] | None,
    log: JobLog | None,
    errors: ErrorTable,
    stall: Stall | None = None,
    code: SourceCode | None = None,
) -> Failures:
    """What is known of how the job's ranks failed.

    What is in the log of a job that hung until all of its ranks were ended, or whose ranks all ended well, has ended none
    of them: a thread, or an error that was caught.

    Raises:
        SkipCheck: nobody saw a rank end, and there is no log.
    """
    if exits is None and log is None:
        raise SkipCheck("no job log and no exit status of any rank")
    found = [*_of_ranks(exits, errors, code)] if exits is not None else []
    hung = stall is not None and exits is not None and all(entry.value.ended_by_launcher for entry in exits)
    well = exits is not None and not found and log is not None and not (log.ends or log.errors or log.failure_lines)
    if log is not None and not hung and not well:
        found += [_raised(error, errors) for error in log.errors]
        found += [_ended(end, log) for end in log.ends]
        found += failures_in_lines(log, found, errors, running=stall is not None)
        found += _out_of_memory(log, found)
        if not any(map(_failed, found)):
            last = (*uncaught_exceptions(log), *(log.cut if log.ended_by is None else ()))
            found += [_raised(error, errors) for error in last[:1]]
    return Failures(
        all=tuple(sorted((failure for failure in found if _failed(failure)), key=lambda failure: failure.order)),
        finished=tuple(entry.rank for entry in exits or () if entry.value.exit_code == 0),
        log=log,
    )


def _of_ranks(exits: PerRank[RankExit], errors: ErrorTable, code: SourceCode | None) -> Iterator[Failure]:
    """The failure of each rank that did not end well. Ranks that share one account of their end share what it shows."""
    shown: dict[int, Failure] = {}
    for entry in exits:
        if entry.value.exit_code == 0:
            continue
        same = shown.get(id(entry.value))
        if same is None:
            ended = without_what_was_caught(entry.value, code)
            same = shown[id(entry.value)] = failure_of_rank(entry.rank, ended, errors)
        yield replace(same, rank=entry.rank)


def _failed(failure: Failure) -> bool:
    return (
        failure.error is not None
        or failure.exit.exit_code is not None
        or failure.code is not None
        or failure.secondary_error is not None
    )


def _raised(error: RankError, errors: ErrorTable) -> Failure:
    """The failure of a process that raised an exception, whose rank the log does not show."""
    return failure_of_rank(None, RankExit(exit_code=None, error=error), errors)


def _ended(end: RankExit, log: JobLog) -> Failure:
    """The end of a process whose rank the log does not show."""
    killed = end.exit_code == -SIGKILL and log.out_of_memory is not None
    return Failure(rank=None, exit=replace(end, kernel_said=log.out_of_memory) if killed else end, error=None, text="")


def _out_of_memory(log: JobLog, found: Sequence[Failure]) -> Iterator[Failure]:
    """The process that the kernel killed, where no end of a process is known that it explains."""
    if log.out_of_memory is not None and not any(failure.exit.signal == SIGKILL for failure in found):
        yield Failure(rank=None, exit=RankExit(exit_code=-SIGKILL, kernel_said=log.out_of_memory), error=None, text="")
