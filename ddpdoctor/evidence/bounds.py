"""What evidence from any source must fulfil, so that what judges it need not ask: columns that fit, numbers of a sane size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_RANKS = 1 << 18
"""More ranks than any job has: a larger number of ranks is not one, and no memory is spent on it."""


def need(holds: bool, what: str) -> None:
    """Raise ValueError with the words `what` unless it `holds`; readers of files turn that into an error about the file."""
    if not holds:
        raise ValueError(what)


def need_ranks(number: int | None, what: str) -> None:
    """Raise ValueError unless `number` can be a number of ranks."""
    need(number is None or 0 <= number <= MOST_RANKS, f"{what} is {number}, not between 0 and {MOST_RANKS}")


def need_rank(number: int, what: str) -> None:
    """Raise ValueError unless `number` can be what a launcher gave as a rank, be it out of range."""
    need(abs(number) <= MOST_RANKS, f"{what} is {number}, not between 0 and {MOST_RANKS}")


def need_places(places: Iterable[int], within: Sequence[object], what: str) -> None:
    """Raise ValueError unless each of `places` is a position in `within`."""
    different = {*places}
    if different:
        need(min(different) >= 0 and max(different) < len(within), f"{what} has a position outside of its table")
