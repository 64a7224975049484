"""A list that is divided: into one part for each rank, `files.chunk(world_size)[rank]`, or in two, `rows[:n]` and `rows[n:]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import RawCut, Scope

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


def first_parts(scope: Scope) -> Iterator[tuple[RawCut, bool]]:
    """Where a function takes the first part of a list, `rows[:n]`, and whether it takes what begins at `n` as well."""
    slices = [(raw, ast.dump(raw.whole), one) for raw in scope.cuts if (one := _slice(raw.node)) is not None]
    begun = {(whole, ast.dump(one.lower)) for _, whole, one in slices if one.lower is not None}
    for raw, whole, one in slices:
        if one.lower is None and one.upper is not None:
            yield raw, (whole, ast.dump(one.upper)) in begun


def leaves_out_a_part(scope: Scope, name: str) -> bool:
    """Whether a function picks what is not in a part of a list: `held = set(order[:n])`, and `if i not in held`."""
    parts = {
        key
        for key, given in scope.definitions.items()
        for one in given
        if one.value is not None
        and any(isinstance(each, ast.Subscript) and dotted(each.value) == name for each in ast.walk(one.value))
    }
    tests = (each for each in ast.walk(scope.node) if isinstance(each, ast.Compare))
    return any(isinstance(one.ops[0], ast.NotIn) and dotted(one.comparators[0]) in parts for one in tests)


def _slice(node: ast.expr) -> ast.Slice | None:
    """The slice without a step that an expression takes of a list; None of other expressions."""
    cut = node.slice if isinstance(node, ast.Subscript) else None
    return cut if isinstance(cut, ast.Slice) and cut.step is None else None
