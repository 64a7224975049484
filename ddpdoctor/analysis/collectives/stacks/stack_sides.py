"""Which of the ranks that wait in collectives are at one place of the program, by their stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.rank_tests import ranks_under
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import BACKWARD, FORWARD
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import SourceCode

# ranks that stand so have reached one point of the program by different call paths
_APART = {Relation.CONDITIONAL, Relation.UNCONDITIONAL, Relation.BRANCHES, Relation.BEFORE, Relation.AHEAD}


def sides_of(
    activities: Mapping[int, RankActivity], paths: Mapping[int, tuple[Frame, ...]], code: SourceCode | None
) -> list[list[int]]:
    """The ranks by place, in the order of the first of each."""
    sides: list[list[int]] = []
    for rank in sorted(activities):
        for side in sides:
            if _together(
                activities[rank],
                activities[side[0]],
                compare(paths.get(rank, ()), paths.get(side[0], ()), code, further=None),
            ):
                side.append(rank)
                break
        else:
            sides.append([rank])
    return sides


def one_side_and_all_others(
    sides: Sequence[Sequence[int]],
    activities: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    code: SourceCode | None,
) -> list[list[int]] | None:
    """Of several sides the one under a test that selects exactly its ranks, beside all others, of which none is under it.

    No other rank reaches this call, of whatever group it is. The others may wait for these ranks in several calls, none of
    them the same as theirs.
    """
    everyone = sorted(rank for side in sides for rank in side)
    for side in sides:
        others = [rank for rank in everyone if rank not in side]
        if activities[side[0]].operation in {activities[other].operation for other in others}:
            continue
        found = [compare(paths.get(side[0], ()), paths.get(other, ()), code) for other in others]
        tests = {one.condition if one.decides else None for one in found}
        if all(test is not None and ranks_under(test, everyone) == (*side,) for test in tests):
            return [list(side), others]
    return None


def _together(one: RankActivity, other: RankActivity, comparison: Comparison) -> bool:
    """Whether two ranks are in one call, or in one step of the model: a rank may be in backward before another is."""
    if comparison.relation is Relation.SAME and one.operation == other.operation:
        return True
    in_a_step = {one.operation, other.operation} <= {FORWARD, BACKWARD}
    return in_a_step and comparison.relation not in _APART and comparison.loop is None
