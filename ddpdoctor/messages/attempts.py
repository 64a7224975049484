"""One report of a job whose launcher started its ranks again: what ended each attempt, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Report, Severity

RENDEZVOUS = ("DDP20", "DDP22")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """A finding that is a cause, and the numbers of the attempts that it ended, from 1."""

    finding: Finding
    attempts: tuple[int, ...]

    @property
    def connects(self) -> bool:
        """Whether it says that ranks did not meet or could not connect."""
        return self.finding.code.startswith(RENDEZVOUS)


def over_all_attempts(last: Report, earlier: Sequence[Report], evidence: Evidence) -> Report:
    """The report of the last attempt with what ended the attempts before it, the first cause first.

    An attempt that cannot connect after one that could and then failed is a consequence: what the earlier attempt left behind
    (ports, keys in the store, processes that still end) is in the way.
    """
    total = len(earlier) + 1
    causes = [*_causes([*earlier, last])]
    if all(cause.attempts == (total,) for cause in causes):
        return last
    survived = _severity_of_survived(evidence)
    own = next((cause for cause in causes if not cause.connects), None)
    found = [
        replace(
            cause.finding,
            severity=Severity.FAIL if total in cause.attempts else survived,
            details=(_when(cause.attempts, total), *cause.finding.details),
            explained_by=own.finding.code if own is not None and cause.connects else None,
        )
        for cause in causes
    ]
    found.sort(key=lambda finding: (finding.explained_by is not None, -finding.severity.rank))
    others = [finding for finding in last.findings if not _is_cause(finding)]
    return replace(last, findings=(*found, *others))


def _severity_of_survived(evidence: Evidence) -> Severity:
    """How severe it is what ended earlier attempts only: information while the job runs, a warning where it ended well."""
    run, ends = evidence.one(CommandRun), evidence.per_rank(RankExit)
    if evidence.one(Stall) is not None and (run is None or run.exit_code is None):
        return Severity.INFO
    seen = [entry.value for entry in ends or () if entry.value.exit_code is not None or entry.value.error is not None]
    well = all(end.exit_code == 0 for end in seen) if seen else _is_at_work(evidence.one(JobLog))
    return Severity.WARN if well else Severity.FAIL


def _is_at_work(log: JobLog | None) -> bool:
    """Whether the log of an attempt shows ranks at work or a clean end, and no failure."""
    return log is not None and log.at_work and not (log.failure_lines or log.errors or log.ends or log.ended_by)


def _causes(reports: Sequence[Report]) -> Iterator[_Cause]:
    """The causes in all reports, one of several attempts once, as the last of them shows it."""
    found = grouped(
        (_identity(finding), (number, finding))
        for number, report in enumerate(reports, 1)
        for finding in report.findings
        if _is_cause(finding)
    )
    for each in found.values():
        yield _Cause(finding=each[-1][1], attempts=tuple(dict.fromkeys(number for number, _ in each)))


def _is_cause(finding: Finding) -> bool:
    return finding.severity is Severity.FAIL and finding.explained_by is None


def _identity(finding: Finding) -> object:
    """What the findings of one cause have in common: the code and the line; where no line is known, the ranks."""
    first = next(iter(finding.where), None)
    return (finding.code, (first.file, first.line) if first is not None else finding.ranks)


def _when(attempts: Sequence[int], total: int) -> str:
    """`in attempt 1 of 3`; `in each of 3 attempts`."""
    if len(attempts) == total:
        return f"in each of {total} attempts"
    listed = f"attempt{'s' if len(attempts) > 1 else ''} {', '.join(map(str, attempts))} of {total}"
    return f"in {listed}" if total in attempts else f"in {listed}: the launcher started the ranks again"
