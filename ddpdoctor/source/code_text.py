"""An expression as it is written, on one line and shortened."""

from __future__ import annotations

import ast

MOST_TEXT = 70
_LINES: dict[int, tuple[str, list[str]]] = {}


def segment(text: str, node: ast.AST | None) -> str:
    """The text of a node, white space collapsed, at most 70 characters."""
    line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if not line or not last:
        return ""
    kept = _LINES.get(id(text))
    if kept is None or kept[0] is not text:
        if len(_LINES) > 64:
            _LINES.clear()
        kept = _LINES[id(text)] = (text, text.split("\n"))
    lines = kept[1]
    start, end = node.col_offset, node.end_col_offset  # type: ignore[union-attr]
    first = lines[line - 1] if line <= len(lines) else ""
    if line == last:
        found = first[start:end] if first.isascii() else first.encode()[start:end].decode(errors="replace")
    else:
        tail = lines[line : min(last, line + 4)]
        found = " ".join([first[start:], *(part.strip() for part in tail)])
    found = " ".join(found.split())
    return found if len(found) <= MOST_TEXT else f"{found[: MOST_TEXT - 3]}..."
