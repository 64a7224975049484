"""Names as they are written: `torch.nn.Linear`, `net.module[0].head`."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and attributes alone, else an empty string; kept at the node, as it is asked for often."""
    if type(node) is ast.Name:
        return node.id
    known: str | None = node.__dict__.get("dotted_name")
    if known is None:
        known = node.__dict__["dotted_name"] = _dotted(node)
    return known


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    at = node
    while type(at) is ast.Attribute:
        parts.append(at.attr)
        at = at.value
    if type(at) is not ast.Name:
        return ""
    parts.append(at.id)
    return ".".join(parts[::-1])


def written_path(node: ast.expr) -> str:
    """`net.module[0].head` of names, attributes and plain subscripts, else an empty string."""
    parts: list[str] = []
    at = node
    while isinstance(at, ast.Attribute | ast.Subscript):
        if isinstance(at, ast.Attribute):
            parts.append(f".{at.attr}")
        elif isinstance(at.slice, ast.Constant | ast.Name | ast.UnaryOp):
            parts.append(f"[{ast.unparse(at.slice)}]")
        else:
            return ""
        at = at.value
    return "".join((at.id, *reversed(parts))) if isinstance(at, ast.Name) else ""


def names_in(node: ast.AST) -> Iterator[str]:
    """The names and dotted names in an expression."""
    pending: list[ast.AST] = [node]
    while pending:
        at = pending.pop()
        if isinstance(at, ast.Name | ast.Attribute):
            key = dotted(at)
            if key:
                yield key
                continue
        pending.extend(ast.iter_child_nodes(at))


def makes_an_object(node: ast.expr | None) -> bool:
    """Whether an expression is an object that a class makes, as its name shows, or what a method gives of it."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        node = node.func.value
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2][:1].isupper()


def is_gradient(node: ast.expr) -> bool:
    """Whether an expression is written as the gradient of something, or a part of it: `p.grad`, `p.grad.data[0]`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def is_none(node: ast.expr | None) -> bool:
    """Whether an expression is `None`."""
    return isinstance(node, ast.Constant) and node.value is None
