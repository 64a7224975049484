"""What should be the same on every rank and is not: each value with its ranks, and who is in the minority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.majority import vote
from ddpdoctor.model import SkipCheck, group_ranks


@dataclass(frozen=True, slots=True)
class Difference:
    """`values` holds each value with its ranks, `odd` the ranks outside the majority; all where there is none."""

    values: Mapping[str, tuple[int, ...]]
    odd: tuple[int, ...]
    tied: bool

    @property
    def said(self) -> str:
        """`3.10 on ranks 0-2, 3.11 on rank 3`, and that it cannot be told who is right where that is so."""
        listed = ", ".join(f"{value} on {group_ranks(ranks)}" for value, ranks in self.values.items())
        return f"{listed}; no majority tells which is right" if self.tied else listed


def difference(value_of: Iterable[tuple[int, str | None]]) -> Difference | None:
    """How the ranks' values differ, or None where they agree. A rank whose value is None could not tell.

    Raises:
        SkipCheck: fewer than two ranks could tell.
    """
    known = {rank: value for rank, value in value_of if value is not None}
    if len(known) < 2:
        raise SkipCheck("one rank alone has nothing to differ from: start it with torchrun, srun or mpirun")
    if len({*known.values()}) == 1:
        return None
    sides = vote(known)
    values = {
        value: tuple(rank for rank in sorted(known) if known[rank] == value) for value in dict.fromkeys(known.values())
    }
    return Difference(values=values, odd=sides.odd, tied=sides.tied)
