"""Numbers that others write. Python raises for a text of more than 4,300 digits, and time grows with the square of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST_DIGITS = 18  # which fit into 64 bits


def whole_number(text: str) -> int | None:
    """The number that the text is; None where it is none, is negative, or has more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def integers(values: Iterable[Any]) -> tuple[int, ...]:
    """The values, which are integers already.

    Raises:
        TypeError: one of them is none.
    """
    column = tuple(values)
    if not set(map(type, column)) <= {int}:
        raise TypeError("a number was expected")
    return column
