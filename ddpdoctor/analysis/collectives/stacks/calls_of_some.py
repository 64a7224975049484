"""The call that only some ranks make, by the source alone, where ranks wait for each other behind it.

Calls that were paired with those of another line let ranks go on: where they wait at last tells less than a test of the rank
above a call that all of them must make.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.analysis.collectives.groups.desync import Cause
from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests
from ddpdoctor.analysis.collectives.places.rank_tests import exempted_rank
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import SourceCode


def by_a_call_of_some(
    by_rank: Mapping[int, RankActivity], paths: Mapping[int, tuple[Frame, ...]], code: SourceCode | None
) -> StackDesync | None:
    """The ranks that make the only such call, or those that do not where these are fewer, and the others.

    None where ranks of both sides wait at the same place, where there are several calls, or where a test does not tell which
    ranks pass.
    """
    asked = [*rank_requests(code, "collective")]
    if len(asked) != 1:
        return None
    made = asked[0].made_by(sorted(by_rank))
    others = tuple(rank for rank in sorted(by_rank) if rank not in made)
    if not made or not {paths.get(rank) for rank in made}.isdisjoint(paths.get(rank) for rank in others):
        return None
    left_out = len(others) < len(made) or others == (exempted_rank(asked[0].condition),)
    minority, majority = (others, made) if left_out else (made, others)
    return StackDesync(
        cause=Cause.MISSING if left_out else Cause.EXTRA,
        minority=tuple(by_rank[rank] for rank in minority),
        majority=tuple(by_rank[rank] for rank in majority),
        tied=False,
        comparison=Comparison(Relation.CONDITIONAL, condition=asked[0].condition, frame=asked[0].frame),
        request=asked[0],
    )
