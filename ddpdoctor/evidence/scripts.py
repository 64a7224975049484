"""Launch scripts as they were read, and the Python programs that they name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """One shell script, for Slurm or for a terminal."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """One Python program, and the path of the script that names it."""

    path: str
    text: str
    started_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFiles:
    """All that were read."""

    files: tuple[ScriptFile, ...]
    programs: tuple[ProgramFile, ...] = ()


KINDS = (ScriptFiles,)
