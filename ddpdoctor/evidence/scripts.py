"""Launch scripts as they were read, and the Python programs that they name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """One shell script, for Slurm or for a terminal."""

    path: str
    """As it was given."""
    text: str
    """Its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """One Python program that a script names."""

    path: str
    """As the script names it."""
    text: str
    """Its content."""
    started_by: str
    """The path of that script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFiles:
    """All that were read."""

    files: tuple[ScriptFile, ...]
    """The scripts, in the order given."""
    programs: tuple[ProgramFile, ...] = ()
    """The programs that they name."""


KINDS = {ScriptFiles: "launch script"}
