"""An error as a rank writes it down."""

from __future__ import annotations

from typing import NamedTuple

from .source_line import SourceLine


class Error(NamedTuple):
    """An exception with its stack and what it was raised from."""

    type: str
    """The name of its class, without the module."""
    message: str
    """What `str()` gives, cut off where it is very long."""
    stack: tuple[SourceLine, ...] = ()
    """The lines that it went through, the innermost first."""
    cause: Error | None = None
    """The exception that it was raised from, or that was being handled when it was raised."""
