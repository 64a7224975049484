"""The condition that a call is under, by the frames that lead to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.places.rank_tests import (
    TELLS_THE_FIRST_RANK,
    is_the_same_everywhere,
    ranks_under,
    tells_ranks_apart,
)
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.source import Condition, SourceCode, place_of


def rank_test(frames: tuple[Frame, ...], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """The first condition above `frames` that tells ranks apart, and the frame that is under it."""
    for frame in frames:
        place = place_of(code, frame)
        for condition in place.conditions if place is not None else ():
            if tells_ranks_apart(condition) and (is_users(frame.file) or TELLS_THE_FIRST_RANK.search(condition.test)):
                return condition, frame
    return None


def shared_rank_test(programs: Iterable[tuple[Frame, ...]], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """The `rank_test` of all these stacks, where it is one condition and one branch of it; none where they differ."""
    tests = [rank_test(program, code) for program in programs]
    alike = {(test[0], test[1].file) if test is not None else None for test in tests}
    return tests[0] if len(alike) == 1 else None


def condition_over(frames: tuple[Frame, ...], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """The last condition above `frames`, outermost first, and the frame that is under it.

    Not that of a script's main, nor one that asks whether there is a job of several ranks: all of them answer it alike.
    """
    for frame in reversed(frames):
        place = place_of(code, frame)
        conditions = (
            [condition for condition in place.conditions if not is_the_same_everywhere(condition)]
            if place is not None
            else []
        )
        if conditions:
            return conditions[-1], frame
    return None


@dataclass(frozen=True, slots=True)
class Callers:
    """The ranks that make a call in which some wait, after all others of them ended with exit code 0."""

    agrees: bool
    """Whether a test above the call says which ranks make it, with those that wait among them, and none that ended."""
    few: bool
    """Whether fewer make the call than do not, or as many, under a test: the call is one too many. Counted are those that wait
    and those that ended, or, where the test agrees, all ranks."""


def callers(
    test: tuple[Condition, Frame] | None, waiting: Collection[int], ended: Collection[int], ranks: Sequence[int]
) -> Callers:
    """Which side differs where `ended` ended while `waiting` wait below `test`; `ranks` are all of the group."""
    through = ranks_under(test[0], ranks) if test is not None else ()
    agrees = test is not None and set(waiting) <= set(through) and set(ended).isdisjoint(through)
    call, do_not = (len(through), len(ranks) - len(through)) if agrees else (len(waiting), len(ended))
    return Callers(agrees=agrees, few=call < do_not or (test is not None and call == do_not))
