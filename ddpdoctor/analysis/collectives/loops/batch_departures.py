"""Which ranks left their training loop before the others, or passed over a batch of it, by the batches that each drew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.ranks import StepMark

# of all batches, the least share that the usual number of forwards followed: with fewer there is no usual number
STEADY = 0.5
CONTEXT = 4  # forwards before one that tell how many collectives usually follow: most accumulate over four at most
SEEN_OFTEN = 2  # times on each rank that a number must have followed before it is usual


class DepartureKind(Enum):
    """What the ranks did that their peers did not."""

    LEFT = "left the loop over their batches before its end"
    SHORT = "had fewer batches"
    ENDED = "made fewer turns of a loop that no data loader counts"
    SKIPPED = "passed over a batch"
    IRREGULAR = "made another number of collectives with a forward than usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDeparture:
    """Where the loops of the ranks diverged, as far as the batches that they drew tell."""

    how: DepartureKind
    """What the ranks did that their peers did not."""
    ranks: tuple[int, ...]
    """The ranks that left their loop, or passed over a batch."""
    tied: bool
    """Whether there is no majority."""
    iteration: int
    """The last batch that all ranks drew before, counted from the start."""
    batches: int | None
    """The place of that batch in its pass."""
    lengths: Mapping[int, int]
    """By rank, how many batches a pass has, or how many collectives it made with that forward."""
    forwards: int | None
    """How many training forwards `ranks` had made; None at their end."""
    went_on: bool = True
    """Whether `ranks` drew batches afterwards."""


def by_batches(marks: Mapping[int, Mapping[int, StepMark]]) -> FoundDeparture | None:
    """The first batch after which the ranks did not do the same, as their numbers of batches, forwards and collectives tell."""
    common = sorted(set.intersection(*map(set, marks.values()))) if marks else []
    return _first(marks, common) or _irregular(marks, common) or _at_the_end(marks)


def first_to_end(marks: Mapping[int, Mapping[int, StepMark]]) -> tuple[int, tuple[int, ...]]:
    """The lowest last iteration of a rank, and the ranks that end with it."""
    ends = {rank: max(each, default=0) for rank, each in marks.items()}
    least = min(ends.values(), default=0)
    return least, tuple(rank for rank, end in sorted(ends.items()) if end == least)


def _first(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> FoundDeparture | None:
    most_frequent = _most_frequent_forwards(marks, common)
    for before, now in pairwise(common):
        if now != before + 1:
            continue
        at = {rank: each[now] for rank, each in marks.items()}
        last = {rank: each[before] for rank, each in marks.items()}
        places = {rank: mark.in_pass for rank, mark in at.items()}
        if None not in places.values() and len({*places.values()}) > 1:
            return _next_pass(last, at)
        made = {rank: _made(last[rank], at[rank]) for rank in at}
        if most_frequent is not None and None not in made.values() and len({*made.values()}) > 1:
            few = tuple(rank for rank, count in sorted(made.items()) if count is not None and count < most_frequent)
            if few and all(count == most_frequent for rank, count in made.items() if rank not in few):
                return FoundDeparture(
                    how=DepartureKind.SKIPPED,
                    ranks=few,
                    tied=False,
                    iteration=before,
                    batches=last[few[0]].in_pass,
                    lengths={},
                    forwards=at[few[0]].forwards,
                )
            return None
    return None


def _next_pass(last: Mapping[int, StepMark], at: Mapping[int, StepMark]) -> FoundDeparture | None:
    """Some ranks are at the first batch of their next pass where the others drew a further one of the same."""
    early = tuple(rank for rank, mark in sorted(at.items()) if (mark.in_pass or 0) <= (last[rank].in_pass or 0))
    others = [rank for rank in at if rank not in early]
    drawn = {rank: at[rank].in_pass or 0 for rank in others}
    return _left_or_short(early, others, last, at[early[0]].forwards, drawn) if early and others else None


def _irregular(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> FoundDeparture | None:
    """Without a data loader, iterations are forwards: which ranks made another number of collectives with one than usual.

    Usual is what followed the same numbers before, on any rank: of an accumulation over four forwards, 0, 0, 0, 1.
    """
    if any(mark.in_pass is not None for each in marks.values() for mark in each.values()):
        return None
    before: dict[int, tuple[int, ...]] = dict.fromkeys(marks, ())
    followed: dict[tuple[int, ...], Counter[int]] = {}
    for last, now in pairwise(common):
        made = {rank: each[now].seq - each[last].seq for rank, each in marks.items()}
        if len({*made.values()}) > 1:
            most_frequent = followed.get(before[next(iter(before))], Counter()).most_common(1)
            few = tuple(
                rank for rank, count in sorted(made.items()) if not most_frequent or count != most_frequent[0][0]
            )
            if not most_frequent or most_frequent[0][1] < SEEN_OFTEN * len(marks) or not few or len(few) == len(made):
                return None
            return FoundDeparture(
                how=DepartureKind.IRREGULAR,
                ranks=few,
                tied=False,
                iteration=last,
                batches=None,
                lengths=made,
                forwards=last,
            )
        for rank, count in made.items():
            if len(before[rank]) == CONTEXT:
                followed.setdefault(before[rank], Counter())[count] += 1
            before[rank] = (*before[rank], count)[-CONTEXT:]
    return None


def _at_the_end(marks: Mapping[int, Mapping[int, StepMark]]) -> FoundDeparture | None:
    """Some ranks drew their last batch where the others drew a further one of the same pass."""
    least, early = first_to_end(marks)
    others = [rank for rank in marks if rank not in early]
    if not least or any(least not in each for each in marks.values()):
        return None
    last = {rank: each[least] for rank, each in marks.items()}
    if not others:
        return _at_the_end_of_some(last)
    if any(least + 1 not in marks[rank] for rank in others):
        return None
    if any(marks[rank][least + 1].in_pass != (last[rank].in_pass or 0) + 1 for rank in others):
        return None
    return _left_or_short(early, others, last, None, {rank: marks[rank][least + 1].in_pass or 0 for rank in others})


def _at_the_end_of_some(last: Mapping[int, StepMark]) -> FoundDeparture | None:
    """All ranks drew as many batches, and some have no further one: a call before the next batch may part the ranks."""
    early = tuple(rank for rank, mark in sorted(last.items()) if mark.of is not None and mark.in_pass == mark.of)
    others = [rank for rank in last if rank not in early]
    known = all(mark.of is not None and mark.in_pass is not None for mark in last.values())
    return _left_or_short(early, others, last, None, {}) if early and others and known else None


def _left_or_short(
    early: tuple[int, ...],
    others: Sequence[int],
    last: Mapping[int, StepMark],
    forwards: int | None,
    drawn: Mapping[int, int],
) -> FoundDeparture | None:
    """Why the ranks `early` drew no further batch of the pass of which all drew `last`; `forwards` are None at their end.

    `drawn` is how many batches the others have drawn of it: a pass may have more than its data loader says.
    """
    batches = {last[rank].in_pass for rank in (*early, *others)}
    if len(batches) > 1:
        return None
    (made,) = batches
    lengths = {rank: max(mark.of, drawn.get(rank, 0)) for rank, mark in last.items() if mark.of is not None}
    before_its_end = all(rank in lengths and made is not None and made < lengths[rank] for rank in early)
    if not before_its_end and len({*lengths.values()}) < 2:
        return None
    sides = vote({rank: lengths.get(rank) for rank in last})
    return FoundDeparture(
        how=DepartureKind.LEFT if before_its_end else DepartureKind.SHORT,
        ranks=early,
        tied=not before_its_end and sides.tied,
        iteration=last[early[0]].iteration,
        batches=made,
        lengths=lengths,
        forwards=forwards,
        went_on=forwards is not None,
    )


def _most_frequent_forwards(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> int | None:
    """How many forwards follow most batches, over all ranks; None where there is no such number."""
    counts = Counter(
        made
        for each in marks.values()
        for before, now in pairwise(common)
        if now == before + 1 and (made := _made(each[before], each[now])) is not None
    )
    if not counts:
        return None
    ((most_frequent, times),) = counts.most_common(1)
    return most_frequent if most_frequent > 0 and times >= STEADY * counts.total() else None


def _made(before: StepMark, now: StepMark) -> int | None:
    if before.forwards is None or now.forwards is None:
        return None
    return now.forwards - before.forwards
