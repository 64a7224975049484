"""Whether the calls of two kinds follow each other in a program, or come from two threads and meet by chance.

What a rank called of one kind tells nothing of the other then: a checkpoint is written in a thread, while the main thread trains.
Stacks show threads; where a recorder kept none, the calls of several ranks do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from ddpdoctor.analysis.collectives.programs.rank_program import CallKind, RankProgram

MOST_POINTS = 128  # calls of the other kind at which two ranks are compared, the latest ones
CHANGES = 2  # a rank that leaves a call out falls behind once; one that catches up again is not behind in its program


def meet_by_chance(programs: Sequence[RankProgram], kind: CallKind, other: CallKind) -> bool:
    """Whether one of these ranks fell behind the first one in calls of `kind` at one call of `other`, and caught up later.

    A rank with as many calls at most points, and fewer or more at some between them, made them in no fixed order.
    """
    first, *others = programs
    return any(_changes(first, one, kind, other) >= CHANGES for one in others)


def _changes(one: RankProgram, another: RankProgram, kind: CallKind, other: CallKind) -> int:
    return sum(before != after for before, after in pairwise(_differences(one, another, kind, other)))


def _differences(one: RankProgram, another: RankProgram, kind: CallKind, other: CallKind) -> Iterator[int]:
    """By how many calls of `kind` the two differ at each call of `other` of which both tell it, the latest first."""
    for number in islice(reversed(one.numbers.get(other, [])), MOST_POINTS):
        mine, theirs = (_made_before(program, kind, other, number) for program in (one, another))
        if mine is not None and theirs is not None:
            yield mine - theirs


def _made_before(program: RankProgram, kind: CallKind, other: CallKind, number: int) -> int | None:
    place = program.place(other, number)
    return program.made_before(kind, place) if place is not None else None
