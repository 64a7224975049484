"""Ranks that all wait in collectives, and not in the same: told by their stacks, where no recorder tells more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.callsites import Comparison, Relation, compare, seen_from_the_odd, tells_ranks_apart
from ddpdoctor.analysis.desync import Cause, cause_of
from ddpdoctor.analysis.doing import Doing, Doings
from ddpdoctor.analysis.majority import vote_of
from ddpdoctor.analysis.telling import BACKWARD, FORWARD, Activity
from ddpdoctor.analysis.timeline import Timeline
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, users_frames
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.source import Condition, SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import SkipCheck, Where, group_ranks

# ranks that stand so have come to one point of the program by different ways
_APART = {Relation.CONDITIONAL, Relation.UNCONDITIONAL, Relation.BRANCHES, Relation.BEFORE, Relation.AHEAD}
# no rank comes out of these before every other has come to them; a root may come out of a broadcast, and the others follow
_MEETS_ALL = re.compile(r"barrier|all_reduce|all_gather|reduce_scatter|all_to_all")
_POINT_TO_POINT = re.compile(r"send|recv")
HOW_IT_IS_KNOWN = (
    "told by where they stand now; which call was the first too many a job under `ddpdoctor watch` would tell"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Two sides of ranks that wait for each other in different collectives.

    `odd` is the side that is reported; `tied` where no majority tells which is at fault. `comparison` is the place of the
    first odd rank seen from the others.
    """

    cause: Cause
    odd: tuple[Doing, ...]
    usual: tuple[Doing, ...]
    tied: bool
    comparison: Comparison

    @property
    def culprits(self) -> list[int]:
        """The ranks at fault: the odd ones, or both sides where it cannot be told."""
        return sorted(doing.rank for doing in ((*self.odd, *self.usual) if self.tied else self.odd))

    def told(self, before: str = "") -> str:
        """`rank 1 waits in barrier while ranks 0,2-3 wait in backward or forward`; `before` is what the odd did before."""
        odd, usual = (group_ranks([doing.rank for doing in side]) for side in (self.odd, self.usual))
        return f"{odd} {before}{_wait(self.odd)} while {usual} {_wait(self.usual)}"

    def where(self, note: str) -> list[Where]:
        """The place of every rank, with the call that it waits in; `note` is said of the odd ones."""
        return [
            Where.at(
                doing.place,
                rank=doing.rank,
                note=f"waiting in {doing.operation}{f', {note}' if note and doing in self.odd else ''}",
            )
            for doing in (*self.odd, *self.usual)
            if doing.place is not None
        ]


def derive(
    doings: Doings, stacks: PerRank[Stacks], timeline: Timeline | None, code: SourceCode | None, size: JobSize | None
) -> Apart:
    """The two sides, where every rank waits in a collective, none moves, and the source tells how their ways parted.

    Raises:
        SkipCheck: a recorder tells more, somebody does something else, or what the source shows does not decide.
    """
    if timeline is not None:
        raise SkipCheck("the flight recorders tell more")
    if size is not None and len(doings.each) < size.ranks:
        raise SkipCheck(f"only {len(doings.each)} of {size.ranks} ranks could be looked at")
    if not all(doing.activity is Activity.COLLECTIVE and doing.stands_still for doing in doings.each):
        raise SkipCheck("some rank does something else than to wait in a collective")
    if any(_POINT_TO_POINT.search(doing.operation) for doing in doings.each):
        raise SkipCheck("a rank waits in a send or a receive, and its stack does not tell for whom")
    ways = {entry.rank: users_frames(entry.value.main.frames if entry.value.main else ()) for entry in stacks}
    by_rank = {doing.rank: doing for doing in doings.each}
    sides = _sides(by_rank, ways, code)
    if len(sides) != 2:
        raise SkipCheck("the ranks wait in one place, or in more than two")
    votes = vote_of(sides)
    odd, usual, comparison = seen_from_the_odd(votes.sides[1], votes.sides[0], ways, code, tied=votes.tied)
    cause = cause_of(comparison, by_rank[odd[0]].operation, by_rank[usual[0]].operation)
    past = {Relation.PAST: odd, Relation.WITHIN: usual}.get(comparison.relation, ())
    if past and not _holds_all(by_rank[past[0]]):
        raise SkipCheck("the ranks in the loop may have been in the call behind it before, and have gone on")
    if cause is Cause.LEFT and votes.tied and comparison.again:
        cause, odd, usual = Cause.EXTRA, usual, odd  # the other may have left that call out, and be in its next turn
    under = by_rank[usual[0] if comparison.relation is Relation.UNCONDITIONAL else odd[0]]
    if cause is Cause.MISMATCH or (comparison.condition is not None and not _decides(comparison.condition, under)):
        raise SkipCheck("the ranks wait in different collectives, and the source does not show how they parted")
    return Apart(
        cause=cause,
        odd=tuple(by_rank[rank] for rank in odd),
        usual=tuple(by_rank[rank] for rank in usual),
        tied=votes.tied and cause is not Cause.LEFT,
        comparison=comparison,
    )


def _sides(
    doings: Mapping[int, Doing], ways: Mapping[int, tuple[Frame, ...]], code: SourceCode | None
) -> list[list[int]]:
    sides: list[list[int]] = []
    for rank in sorted(doings):
        for side in sides:
            if _together(doings[rank], doings[side[0]], compare(ways.get(rank, ()), ways.get(side[0], ()), code)):
                side.append(rank)
                break
        else:
            sides.append([rank])
    return sides


def _together(one: Doing, other: Doing, comparison: Comparison) -> bool:
    """Whether two ranks are in one call, or in one step of the model: a rank may be in backward before another is."""
    if comparison.relation is Relation.SAME and one.operation == other.operation:
        return True
    in_a_step = {one.operation, other.operation} <= {FORWARD, BACKWARD}
    return in_a_step and comparison.relation not in _APART and comparison.loop is None


def _holds_all(doing: Doing) -> bool:
    """Whether no rank can have come through the call that this one waits in."""
    return doing.operation == BACKWARD or bool(_MEETS_ALL.search(doing.operation))


def _decides(condition: Condition, under: Doing) -> bool:
    """Whether the ranks that are not under `condition` cannot have been there before, and gone on."""
    return tells_ranks_apart(condition) or bool(_MEETS_ALL.search(under.operation))


def _wait(doings: Sequence[Doing]) -> str:
    operations = " or ".join(sorted({doing.operation for doing in doings}))
    return f"wait{'s' if len(doings) == 1 else ''} in {operations}"
