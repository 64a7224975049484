"""What should be the same on every rank and is not: each value with its ranks, and who is in the minority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.majority import vote
from ddpdoctor.model import SkipCheck

ONE_RANK = "only one rank: there is nothing to compare it with; start every rank with torchrun, srun or mpirun"


@dataclass(frozen=True, slots=True)
class Difference:
    """What should be the same on every rank and is not."""

    values: Mapping[str, tuple[int, ...]]
    """Each value with its ranks, sorted."""
    minority: tuple[int, ...]
    """The ranks outside the majority; all where there is no majority."""
    tied: bool
    """Whether there is no majority."""


def difference(value_of: Iterable[tuple[int, str | None]]) -> Difference | None:
    """How the ranks' values differ, or None where they agree. A rank whose value is None could not tell.

    Raises:
        SkipCheck: fewer than two ranks could tell.
    """
    known = {rank: value for rank, value in value_of if value is not None}
    if len(known) < 2:
        raise SkipCheck(ONE_RANK)
    if len({*known.values()}) == 1:
        return None
    sides = vote(known)
    values = {
        value: tuple(rank for rank in sorted(known) if known[rank] == value) for value in dict.fromkeys(known.values())
    }
    return Difference(values=values, minority=sides.minority, tied=sides.tied)
