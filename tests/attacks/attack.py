"""An attack on somebody who points ddpdoctor at a stranger's files: the input, and what it must not achieve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CODE = "foreign code"
FILES = "another user's files"
NUMBERS = "numbers from outside"
MEMORY = "small files, large memory"
TIME = "regular expressions and other time"
TERMINAL = "the terminal"
SECRETS = "secrets"
PARTIAL = "partial failure"
CRASH = "exit code 4"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack: what it writes into an empty folder, and the command line of its victim there."""

    kind: str
    """The class of the attack."""
    law: str
    """What it must not achieve, in a few words."""
    arguments: tuple[str, ...]
    """The command line."""
    make: Callable[[Path], None]
    """Writes the input."""
    shows: str = ""
    """What the victim must read: the verdict in spite of it, or the reason of the refusal."""
    never: tuple[str, ...] = ()
    """What must stand neither in the output nor in a file that the command wrote."""
    codes: tuple[int, ...] = (0, 1, 2, 3)
    """The exit codes that are right."""
    leaves: tuple[str, ...] = ()
    """Files that the command writes."""
    untouched: tuple[str, ...] = ()
    """Files whose content must be what it was."""
    alone: bool = False
    """Whether it needs a process of its own, which imports everything after the input is there."""
    forges: bool = False
    """Whether its text would begin a line of its own, were its line breaks not quoted."""
