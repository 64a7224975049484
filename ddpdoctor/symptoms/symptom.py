"""A symptom as users type it, with the codes of the findings that it can mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symptom:
    """What somebody sees who does not know the cause yet."""

    text: str
    """One short sentence; the index page lists it."""
    codes: tuple[str, ...]
    """The findings that it can mean, the first choice first."""
    also: tuple[str, ...] = ()
    """Other ways to type the same."""
