"""Which ranks are the minority: the smaller sides of a vote, or nobody where no side is the largest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ddpdoctor.grouping import grouped

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Vote:
    """The ranks by what they have."""

    sides: tuple[tuple[int, ...], ...]
    """The ranks with each value, sorted, the largest side first."""
    tied: bool
    """Whether no side is larger than every other, so that nothing shows who is wrong."""
    minority: tuple[int, ...]
    """The ranks against the majority; all ranks where it is tied."""

    @property
    def majority(self) -> tuple[int, ...]:
        """The ranks that have what the largest side has; nobody where it is tied."""
        return () if self.tied else self.sides[0]


def vote(values: Mapping[int, V]) -> Vote:
    """The vote of ranks over their values."""
    by_value = grouped((values[rank], rank) for rank in sorted(values))
    return vote_of(tuple(by_value.values()))


def vote_of(sides: Sequence[Sequence[int]]) -> Vote:
    """The vote where the sides are known already."""
    ordered = tuple(sorted((tuple(sorted(side)) for side in sides), key=lambda side: (-len(side), side)))
    tied = len(ordered) > 1 and len(ordered[0]) == len(ordered[1])
    minority = tuple(sorted(rank for side in ordered[0 if tied else 1 :] for rank in side))
    return Vote(sides=ordered, tied=tied, minority=minority)
