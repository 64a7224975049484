"""Rich's console, which reads the size of the screen from the environment."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from ddpdoctor.whole_numbers import whole_number

MOST_CELLS = 10_000  # in a line or a column of the screen: rich keeps a line of spaces of this length
SIZES = ("COLUMNS", "LINES", "JUPYTER_COLUMNS", "JUPYTER_LINES")


def new_console(**options: Any) -> Console:  # noqa: ANN401 - those of Rich
    """A console with these options of Rich's. A size in the environment that cannot be one is passed over."""
    environ = {name: value for name, value in os.environ.items() if name not in SIZES or _is_size(value)}
    return Console(_environ=environ, **options)


def _is_size(text: str) -> bool:
    return 0 < (whole_number(text) or 0) <= MOST_CELLS
