"""What was run: the command of the job, or of ddpdoctor where it measured by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """One command, from its start to its end."""

    command: str
    """As in a shell, one text: a password after its option is then recognised and redacted."""
    started_at: float
    """When it was started, in seconds since the epoch."""
    ended_at: float | None = None
    """When it ended, in seconds since the epoch; None where it still ran."""
    exit_code: int | None = None
    """Its exit code, -N for signal N; None where it still ran, or where it is the command that reports."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version by package."""


KINDS = {CommandRun: "record of the command"}
