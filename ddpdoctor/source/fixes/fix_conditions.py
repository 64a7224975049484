"""What both the fixes of Python code, and the count of those that can be made, ask of a module's text."""

from __future__ import annotations

import ast
import io
import re


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them, with their ends; a form feed ends none."""
    return io.StringIO(text, newline="").readlines()


def called(code: str) -> str:
    """The last name of the function that a piece of code calls: `iterdir` of `Path(a).iterdir()`; empty where it calls none."""
    try:
        tree = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return called_by(tree) if isinstance(tree, ast.Call) else ""


def called_by(call: ast.Call) -> str:
    """The last name of the function that a call calls; empty where it has none."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def name_of_distributed(text: str) -> str:
    """The name of torch.distributed in a module; empty where it has none."""
    for pattern, name in (
        (r"^[ \t]*import torch\.distributed as (\w+)", ""),
        (r"^[ \t]*from torch import (?:.*, *)?distributed as (\w+)", ""),
        (r"^[ \t]*from torch import (?:.*, *)?distributed\b(?! as)", "distributed"),
        (r"^[ \t]*import torch(?:\.distributed)?[ \t]*$", "torch.distributed"),
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            return name or match[1]
    return ""


def initialised(before: str, indent: str) -> bool:
    """Whether a statement of the same block, in the text before, makes the process group."""
    for line in reversed(lines_of(before)):
        if line.strip() and not line.startswith(indent):
            return False
        if re.match(rf"{indent}[\w.]*init_process_group\(", line):
            return True
    return False
