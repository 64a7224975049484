"""Ranks that waited for each other in different collectives until a timeout ended them, inferred from their tracebacks alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.groups.desync import Cause, cause_of
from ddpdoctor.analysis.collectives.places.callsites import seen_from_minority
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.stack_desync import MEETS_ALL
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.crashes.error_patterns import SecondaryError
from ddpdoctor.analysis.crashes.failure import Failure
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import BACKWARD, Activity, activity_in_stack
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import program_frames
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import SkipCheck

_WAITED = (SecondaryError.TIMED_OUT, SecondaryError.PEER_GONE)
HOW_IT_IS_KNOWN = "inferred from the tracebacks of ranks that a timeout ended, and from the source"


@dataclass(frozen=True, slots=True)
class ErrorDesync:
    """Ranks that waited for each other at the end of the job."""

    found: StackDesync
    """The sides, as stacks of a living job would show them."""


def derive(
    failures: Failures,
    code: SourceCode,
    timeline: Timeline | None,
    stacks: PerRank[Stacks] | None,
    size: JobSize | None,
) -> ErrorDesync:
    """The two sides, where every rank was ended in a collective, one by its timeout, and a test of the rank separates them.

    Raises:
        SkipCheck: something else tells more, or the tracebacks do not decide.
    """
    if timeline is not None or stacks is not None:
        raise SkipCheck("flight recorders or stacks tell more")
    ended = {failure.rank: failure for failure in failures.all if failure.rank is not None}
    expected = size.ranks if size is not None else failures.log.world_size if failures.log is not None else None
    if {*ended} != {*range(expected or max(2, len(ended)))}:
        raise SkipCheck("not every rank has left a traceback")
    reasons = {failure.secondary_error for failure in ended.values()}
    if SecondaryError.TIMED_OUT not in reasons or not reasons <= {*_WAITED}:
        raise SkipCheck("no timeout ended the job")
    waited = {rank: _waited(rank, failure) for rank, failure in sorted(ended.items())}
    by_rank = {rank: one for rank, one in waited.items() if one is not None}
    if len(by_rank) < len(ended):
        raise SkipCheck("a rank was not in a collective")
    return ErrorDesync(_parted(by_rank, ended, code))


def _parted(by_rank: Mapping[int, RankActivity], ended: Mapping[int, Failure], code: SourceCode) -> StackDesync:
    paths = {
        rank: program_frames(failure.error.stack if failure.error is not None else ())
        for rank, failure in ended.items()
    }
    votes = vote({rank: (one.operation, paths[rank]) for rank, one in by_rank.items()})
    if len(votes.sides) != 2:
        raise SkipCheck("the ranks waited in one place, or in more than two")
    fewer, more = votes.sides[1], votes.sides[0]
    minority, majority, comparison = seen_from_minority(fewer, more, paths, code, tied=votes.tied)
    others = by_rank[majority[0]].operation
    if not comparison.decides or not (others == BACKWARD or MEETS_ALL.search(others)):
        raise SkipCheck("the ranks waited in different collectives, and the source does not show how they diverged")
    cause = cause_of(comparison, by_rank[minority[0]].operation, others)
    if cause not in (Cause.EXTRA, Cause.MISSING):
        raise SkipCheck("the ranks waited in different collectives, and none is one too many")
    return StackDesync(
        cause=cause,
        minority=tuple(by_rank[rank] for rank in minority),
        majority=tuple(by_rank[rank] for rank in majority),
        tied=False,
        comparison=comparison,
    )


def _waited(rank: int, failure: Failure) -> RankActivity | None:
    stack = failure.error.stack if failure.error is not None else ()
    activity = activity_in_stack(stack)
    if activity is None or activity[0] is not Activity.COLLECTIVE:
        return None
    return RankActivity(
        rank=rank, kind=activity[0], operation=activity[1], place=failure.place, moves=False, moved=False, process=None
    )
