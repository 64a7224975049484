"""The user's source files: their contents, their lines, their syntax."""

from __future__ import annotations

import ast
from pathlib import Path

from ddpdoctor.host.owned_files import read_source


def source_bytes(file: str, owner: int | None = None) -> bytes | None:
    """The contents of a source file; None where it cannot be read, or, with `owner`, where this user may not read it."""
    try:
        return read_source(Path(file), owner)
    except (OSError, ValueError):
        return None


def source_tree(file: str, owner: int | None = None) -> ast.Module | None:
    """The syntax of a file of Python; None also where it is none."""
    text = source_bytes(file, owner)
    try:
        return ast.parse(text) if text is not None else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def source_lines(text: bytes) -> list[str]:
    """The lines as Python counts them: a form feed ends none."""
    return text.decode(errors="replace").split("\n")
