"""Launch scripts as they were read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """One shell script, for Slurm or for a terminal."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFiles:
    """All that were read."""

    files: tuple[ScriptFile, ...]


KINDS = (ScriptFiles,)
