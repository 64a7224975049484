"""The errors that end a command with a sentence instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterable


class DdpdoctorError(Exception):
    """What went wrong, with the value, and what to do instead.

    `exit_code` is the process's exit code when nothing catches it: see docs/exit-codes.md.
    """

    exit_code = 4

    def __init__(self, message: str, *, details: Iterable[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        """One sentence."""
        self.details = tuple(details)
        """Further lines, such as the files that it is about."""
        self.hint = hint
        """What to do instead."""


class UsageError(DdpdoctorError):
    """The user asked for something that cannot be: a wrong option, path or value (exit code 2)."""

    exit_code = 2


class UndecidedError(DdpdoctorError):
    """Nothing could be judged: no readable evidence, a deadline passed, a rank missing (exit code 3)."""

    exit_code = 3
