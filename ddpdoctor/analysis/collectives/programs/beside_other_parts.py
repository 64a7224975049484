"""A rank's calls beside those of ranks with other parts in the job, which have made as many of a kind until now.

A place among ranks that send and receive is a part of its own: then a rank may have no like. Where it was in step with ranks
of other places at every collective before, they tell as well whether it has left a call out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from ddpdoctor.analysis.collectives.programs.rank_program import CallKind, RankProgram, latest_first
from ddpdoctor.analysis.majority import vote

IN_STEP = 3  # collectives at which the rank was in step: of fewer, chance decides
MANY = 4  # ranks that have all made as many calls
MOST_POINTS = 256  # looked at, the latest first


def surplus_in_step(mine: RankProgram, others: Sequence[RankProgram], kind: CallKind, since: int) -> int | None:
    """By how many calls of this kind the rank is ahead of most others at the last collective that they share; below 0, behind.

    Only collectives behind the place `since` of its record count. None where they do not tell, or where the rank was not in step
    with these at each collective before the one at which it left them. Where all others, `MANY` at least, have made as many, one
    collective tells.
    """
    points = _points(mine, others, kind, since)
    extra, like, agreed = 0, frozenset[int](), False
    for differences in points:
        sides = vote({**differences, -1: 0})
        if len(differences) > 1 and not sides.tied:
            extra = 0 if sides.majority[0] == -1 else differences[sides.majority[0]]
            like = frozenset(sides.majority)
            agreed = len(differences) >= MANY and len({*differences.values()}) == 1
            break
    if not extra:
        return 0 if like else None
    in_step = 0
    for differences in points:
        known = {differences[other] for other in like if other in differences}
        if known == {0}:
            in_step += 1
        elif known and (in_step or known != {extra}):
            return None
    return extra if in_step >= IN_STEP or agreed else None


def _points(mine: RankProgram, others: Sequence[RankProgram], kind: CallKind, since: int) -> Iterator[dict[int, int]]:
    """By how many calls of `kind` the rank is ahead of each other one that tells it, at its last collectives of other kinds."""
    collectives = (point for point in latest_first(mine, kind) if not point[0].point_to_point)
    behind = takewhile(lambda point: point[2] > since, collectives)
    for other_kind, number, place in islice(behind, MOST_POINTS):
        made = mine.made_before(kind, place)
        if made is None:
            continue
        found = {}
        for other, program in enumerate(others):
            there = program.place(other_kind, number)
            theirs = program.made_before(kind, there) if there is not None else None
            if theirs is not None:
                found[other] = made - theirs
        yield found
