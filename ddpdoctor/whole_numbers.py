"""Numbers in texts that others write: Python raises for one of more than 4,300 digits, and time grows with the square."""

from __future__ import annotations

MOST_DIGITS = 18  # which fit into 64 bits


def whole_number(text: str) -> int | None:
    """The number that the text is; None where it is none, is negative, or has more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None
