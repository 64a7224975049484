"""The text of an expression, on one line and shortened."""

from __future__ import annotations

import ast
from collections.abc import Sequence

MOST_TEXT = 70
MAX_TEST = 80  # characters of a condition that are worth showing


def segment(lines: Sequence[str], node: ast.AST | None) -> str:
    """The text of a node of a file of these lines, white space collapsed, at most 70 characters."""
    try:
        line, last = node.lineno, node.end_lineno  # type: ignore[union-attr]
        start, end = node.col_offset, node.end_col_offset  # type: ignore[union-attr]
        first = lines[line - 1]
    except (AttributeError, IndexError):  # a node that nobody has written
        return ""
    if not line or not last:
        return ""
    if line == last:
        found = first[start:end] if first.isascii() else first.encode()[start:end].decode(errors="replace")
    else:
        tail = lines[line : min(last, line + 4)]
        found = " ".join([first[start:], *(part.strip() for part in tail)])
    if "  " in found or not found.isprintable():
        found = " ".join(found.split())
    return found if len(found) <= MOST_TEXT else f"{found[: MOST_TEXT - 3]}..."


def short(node: ast.expr) -> str:
    """The text of an expression as Python would write it, at most 80 characters."""
    text = ast.unparse(node)
    return text if len(text) <= MAX_TEST else f"{text[: MAX_TEST - 3]}..."


def name_of_lambda(node: ast.Lambda) -> str:
    """The name under which a lambda is kept that is assigned to nothing: by its place in the file."""
    return f"<lambda {node.lineno}:{node.col_offset}>"
