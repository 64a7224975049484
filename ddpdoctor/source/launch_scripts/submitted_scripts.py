"""Batch scripts inside of others: what `sbatch` gets from a here-document, or behind `--wrap`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpdoctor.evidence.scripts import Setting

if TYPE_CHECKING:
    from tree_sitter import Node

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


def exported_by(declaration: Node) -> set[str]:
    """The variables that `export NAME`, `export NAME=...` and `declare -x NAME=...` give to what the script starts."""
    words = [(child.type, child.text.decode(errors="replace")) for child in declaration.children if child.text]
    if words[0][1] != "export" and ("word", "-x") not in words:
        return set()
    return {text.partition("=")[0] for kind, text in words if kind in {"variable_assignment", "variable_name"}}


def handed_to_a_job(words: Sequence[str], exported: Sequence[Setting], own: Sequence[Setting]) -> list[Setting]:
    """The variables of the submitting script that the job has: by `--export` all, some or none of those exported.

    `own` are those in front of `sbatch` itself; those in front of other commands are not handed over.
    """
    asked = [word.partition("=")[2] for word in words if word.startswith("--export=")] or ["ALL"]
    names = {name for each in asked for name in each.split(",")}
    of_script = [each for each in exported if not each.only_for_command and not each.conditional and not each.in_task]
    return [
        replace(each, elsewhere=True, only_for_command=False)
        for each in (*of_script, *own)
        if "ALL" in names or each.name in names
    ]
