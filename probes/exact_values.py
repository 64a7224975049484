"""Inputs for a collective whose results are known without rounding, for every rank and element, in every dtype.

Each rank's input repeats a table of small integers, shifted by the rank, so that a value that is lost, doubled, moved or
taken from another rank shows. What a reduction must give repeats a table as well, so that it costs no reduction to know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

PERIOD = 113  # a prime, so that no chunk, ring step or alignment has the same period; every entry is exact in int8
RANK_SHIFT = 31
LARGEST_EXACT = {torch.float16: 2**11, torch.bfloat16: 2**8, torch.int8: 127, torch.uint8: 255}
LARGEST_ANYWHERE = 2**20


@dataclass(frozen=True)
class Values:
    """Integer inputs for a number of ranks, and what their reduction gives."""

    op: str | None
    """The reduction, such as `avg`; None where nothing is reduced."""
    dtype: torch.dtype
    """Of the elements; it bounds the integers that are exact."""
    ranks: int
    """How many ranks take part."""

    def sent(self, rank: int, elements: int, start: int = 0) -> torch.Tensor:
        """The input of one rank, from element `start` on."""
        table = self._table()
        if self.op == "avg":  # the mean of equal values, or of pairs that cancel, needs no rounding
            return self._repeated([value * self._sign(rank) for value in table], elements, start)
        return self._repeated(table, elements, start + RANK_SHIFT * rank)

    def reduced(self, elements: int, start: int = 0) -> torch.Tensor:
        """What the reduction over all ranks gives, from element `start` on."""
        return self._repeated([self._reduce(place) for place in range(PERIOD)], elements, start)

    def _table(self) -> list[int]:
        if self.op in ("sum", "avg"):
            most = self._most()
            return [place % (most + 1) if most else int(place == 0) for place in range(PERIOD)]
        if self.op == "prod":  # signs alone cannot overflow, whatever the number of ranks
            return [(1, 1, -1)[place % 3] for place in range(PERIOD)]
        return [place * 37 % PERIOD for place in range(PERIOD)]

    def _reduce(self, place: int) -> int:
        table = self._table()
        if self.op == "avg":
            return table[place] if self._most() else 0
        values = [table[(place + RANK_SHIFT * rank) % PERIOD] for rank in range(self.ranks)]
        return {"sum": sum, "prod": math.prod, "min": min, "max": max}[str(self.op)](values)  # type: ignore[operator,no-any-return]

    def _most(self) -> int:
        """The largest value that every rank can add without rounding; 0 where there are too many ranks for any."""
        return LARGEST_EXACT.get(self.dtype, LARGEST_ANYWHERE) // self.ranks

    def _sign(self, rank: int) -> int:
        if self._most():
            return 1
        return 0 if rank == self.ranks - 1 and self.ranks % 2 else (-1) ** rank

    def _repeated(self, table: list[int], elements: int, start: int) -> torch.Tensor:
        table = table[start % PERIOD :] + table[: start % PERIOD]
        if self.dtype is torch.uint8:
            table = [value % 256 for value in table]
        return torch.tensor(table, dtype=self.dtype).repeat(-(-elements // PERIOD))[:elements]
