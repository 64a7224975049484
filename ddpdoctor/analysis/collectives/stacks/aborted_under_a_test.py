"""Ranks in a call under a test of the rank, when gloo ended one of them because it had met another call of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.places.conditions_above import shared_rank_test
from ddpdoctor.analysis.collectives.places.rank_tests import ranks_under
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import two_sides
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, SourceCode
from ddpdoctor.model import SkipCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedUnderATest:
    """Ranks that alone made a call, as a test of the rank above it says."""

    ranks: tuple[int, ...]
    """The ranks below the test, sorted."""
    others: tuple[int, ...]
    """The other ranks, sorted."""
    condition: Condition
    """The test, in the branch of `ranks`."""
    frame: Frame
    """The line below it."""
    places: Mapping[int, Frame]
    """The line of the program at which each rank was."""


def derive(failures: Failures, timeline: Timeline, code: SourceCode) -> AbortedUnderATest:
    """The two sides, where the test lets exactly the few of one side come to their line, and none is above the others' line.

    Raises:
        SkipCheck: gloo ended no rank so, or what is known of the ranks does not tell.
    """
    paths, sides = two_sides(failures, timeline)
    for ranks, others in (sides, sides[::-1]):
        test = shared_rank_test((paths[rank] for rank in ranks), code)
        under = ranks_under(test[0], sorted(paths)) if test is not None else ()
        if test is not None and under == ranks and len(ranks) <= len(others):
            if shared_rank_test((paths[rank] for rank in others), code) is not None:
                break
            places = {rank: path[-1] for rank, path in paths.items()}
            return AbortedUnderATest(ranks=ranks, others=others, condition=test[0], frame=test[1], places=places)
    raise SkipCheck("no test of the rank is above the call in which gloo ended a rank")
