"""A list that is divided into parts, one for each rank: `files.chunk(world_size)[rank]`."""

from __future__ import annotations

import ast

from ddpdoctor.source.syntax.scopes import Scope

_DIVIDES = frozenset({"chunk", "split", "tensor_split", "array_split"})
_LIBRARIES = frozenset({"torch", "np", "numpy"})


def numbered(node: ast.expr) -> ast.expr:
    """The list of `enumerate(list)`, and any other expression itself."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[listed, *_]):
            return listed
    return node


def sliced(node: ast.Call) -> tuple[ast.expr, list[ast.expr]] | None:
    """What `islice(files, rank, None, world_size)` takes a part of, and by what; None of other calls."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return (node.args[0], node.args[1:]) if name == "islice" and len(node.args) > 2 else None


def divided(node: ast.Subscript, scope: Scope) -> tuple[ast.expr, ast.expr] | None:
    """What is divided, and by what, where an index that is no literal takes one of the parts; a text that is split is none."""
    if isinstance(node.slice, ast.Constant | ast.Tuple | ast.UnaryOp):
        return None
    parts: ast.expr | None = node.value
    if isinstance(parts, ast.Name):
        given = scope.definitions.get(parts.id, [])
        plain = len(given) == 1 and given[0].form == "assign" and not given[0].index
        parts = given[0].value if plain else None
    if not isinstance(parts, ast.Call) or not isinstance(parts.func, ast.Attribute) or parts.func.attr not in _DIVIDES:
        return None
    of_package = isinstance(parts.func.value, ast.Name) and parts.func.value.id in _LIBRARIES
    size = parts.args[1:] if of_package else parts.args
    if not size or (isinstance(size[0], ast.Constant) and isinstance(size[0].value, str)):
        return None
    return (parts.args[0] if of_package else parts.func.value), size[0]
