"""The numbers of a version as a program reports it."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")


def version_numbers(text: str, parts: int = 1) -> tuple[int, ...]:
    """The first `parts` numbers of a version, `(2, 24)` of `2.24.3`; fewer, or none, where it does not begin with them."""
    found = _NUMBERS.match(text)
    return tuple(map(int, found[0].split(".")[:parts])) if found else ()
