"""A job that somebody asked to end: what its ranks die of then, and what they print of it, is no failure of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ddpdoctor.analysis.crashes.error_patterns import secondary_error
from ddpdoctor.analysis.crashes.failure import chain
from ddpdoctor.evidence import Evidence, by_rank
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import EndRequest, JobSize, RankError, RankExit

CLOCK_SECONDS = 0.5  # a signal to a whole process group may end a rank before it reaches us


def as_requested(evidence: Evidence) -> Evidence:
    """The evidence as rules see it: without the secondary errors of ranks that ended after the job was asked to end.

    The evidence itself where nobody asked. A case holds the errors as they were.
    """
    request = evidence.one(EndRequest)
    if request is None:
        return evidence
    judged = evidence.with_each(RankExit, lambda _, end: without_secondary_error(end, request))
    job = tuple(_without_secondary_errors(fact) if isinstance(fact, JobLog) else fact for fact in evidence.job)
    return replace(judged, job=job)


def without_secondary_error(end: RankExit, request: EndRequest) -> RankExit:
    """The end of a rank, without its error where that says no more than that the job was asked to end."""
    after = end.ended_at is None or end.ended_at > request.at - CLOCK_SECONDS
    if end.error is None or not after or not _is_secondary(end.error):
        return end
    return replace(end, error=None, ended_by_launcher=True)


def ended_as_requested(ends: Mapping[int, RankExit], request: EndRequest) -> bool:
    """Whether every rank ended because the job was asked to end, or had ended well."""
    judged = (without_secondary_error(end, request) for end in ends.values())
    return all(end.ended_by_launcher or end.exit_code == 0 for end in judged)


def by_request_alone(evidence: Evidence) -> bool:
    """Whether somebody asked the job to end, and no rank had failed before: what launchers print of it is no failure.

    False where the end of a rank is not known, and where the log shows an end or an error of no rank.
    """
    request, log, size = evidence.one(EndRequest), evidence.one(JobLog), evidence.one(JobSize)
    ends = by_rank(evidence.per_rank(RankExit))
    if request is None or not ends or (size is not None and len(ends) < size.ranks):
        return False
    of_nobody = log is not None and (log.ends or any(not _is_secondary(error) for error in log.errors))
    return not of_nobody and ended_as_requested(ends, request)


def _without_secondary_errors(log: JobLog) -> JobLog:
    return replace(log, errors=tuple(error for error in log.errors if not _is_secondary(error)))


def _is_secondary(error: RankError) -> bool:
    return all(secondary_error(f"{each.type}: {each.message}") is not None for each in chain(error))
