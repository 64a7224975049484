"""Batch scripts inside of others: what `sbatch` gets from a here-document, or behind `--wrap`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_WRAP = "--wrap"
_UNKNOWN = ("$", "«")
"""How a word begins that the script does not determine."""


def submits(words: Sequence[str]) -> bool:
    """Whether a command is `sbatch` with options that the script determines."""
    return [*words[:1]] == ["sbatch"] and not any(word.startswith(_UNKNOWN) for word in words[1:])


def wrapped(words: Sequence[str]) -> str:
    """The text that `sbatch --wrap` runs; empty where it has none."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == _WRAP:
            return following
        if word.startswith(f"{_WRAP}="):
            return word.partition("=")[2]
    return ""


def as_comment(words: Sequence[str]) -> str:
    """The options of the command line as a script says them itself."""
    return f"#SBATCH {shlex.join(words[1:])}"
