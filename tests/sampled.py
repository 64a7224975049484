"""Parameters of costly tests: some in `make slow`, which CI runs, and the others in `make matrix`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sampled(rows: Iterable[Any], chosen: Callable[..., bool], *, name: Callable[..., str] | None = None) -> list[Any]:
    """Rows of parameters with their marks: `slow` where `chosen(*row)` holds, else `matrix`.

    `name(*row)` gives the id of a row; without it pytest makes one.
    """
    found = []
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        mark = pytest.mark.slow if chosen(*values) else pytest.mark.matrix
        found.append(pytest.param(*values, marks=mark, id=name(*values) if name else None))
    return found
