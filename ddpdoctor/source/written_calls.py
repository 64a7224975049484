"""Calls that are written elsewhere in part: `functools.partial`, lambdas, and functions that are given literals."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddpdoctor.source.origins import At, Origins
from ddpdoctor.source.scopes import Scope
from ddpdoctor.source.walk import dotted
from ddpdoctor.source.written_dicts import items_of, only_value

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values

MOST_RETURNS = 3  # of a function that is looked at with the literals of one call


def partial_of(values: Values, node: ast.Call, at: At) -> tuple[ast.Call, At] | None:
    """The `functools.partial` that a call's function is, and where it is written."""
    only = only_value(values, node.func, at) if isinstance(node.func, ast.Name | ast.Attribute) else None
    if only is None or not isinstance(only[0], ast.Call) or not only[0].args:
        return None
    return (only[0], only[1]) if dotted(only[0].func).rpartition(".")[2] == "partial" else None


def called_for(values: Values, node: ast.Call, at: At) -> tuple[ast.Call, At] | None:
    """A call of the function inside of a partial, in whose place another call stands."""
    partial = partial_of(values, node, at)
    if partial is None or not dotted(partial[0].args[0]):
        return None
    key = (id(node), -1)
    if key not in values.written_out:
        call = ast.Call(func=partial[0].args[0], args=node.args, keywords=node.keywords)
        values.written_out[key] = ast.copy_location(call, node)
    written = values.written_out[key]
    assert isinstance(written, ast.Call)
    return written, partial[1]


def called(values: Values, function: ast.expr) -> ast.expr:
    """The call of a function without arguments, as a `default_factory` is called."""
    key = (id(function), -2)
    if key not in values.written_out:
        values.written_out[key] = ast.copy_location(ast.Call(func=function, args=[], keywords=[]), function)
    written = values.written_out[key]
    assert written is not None
    return written


def of_lambda(values: Values, node: ast.Call, at: At) -> Origins | None:
    """What a lambda gives that is called with literals alone; None of anything else."""
    only = _function_of(values, node.func, at)
    if only is None or not isinstance(only[0], ast.Lambda):
        return None
    names = [one.arg for one in only[0].args.args]
    literals = _literals(node, names)
    if len(literals) != len(names):
        return None
    return values.of(_with(values, node, only[0].body, literals, 0), only[1])


def _function_of(values: Values, node: ast.expr, at: At) -> tuple[ast.expr, At] | None:
    """The expression that is called: under a name, or in a dict that is written out."""
    if isinstance(node, ast.Name):
        return only_value(values, node, at)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        items = items_of(values, node.value, at)
        return items.get(str(node.slice.value)) if items is not None else None
    return None


def with_literals(values: Values, node: ast.Call, target: Scope) -> Iterator[Origins]:
    """What each `return` of a function gives where the call names a text, such as a variable of the environment."""
    names = target.parameters[1:] if target.parent is not None and target.parent.is_class else target.parameters
    literals = {name: one for name, one in _literals(node, list(names)).items() if isinstance(one.value, str)}
    literals |= _of_member(values, node, target)
    literals = {name: one for name, one in literals.items() if name not in target.definitions}
    if not literals:
        return
    used = {_key(part) for value, _, _ in target.returns for part in ast.walk(value)}
    if not literals.keys() & used or len(target.returns) > MOST_RETURNS:
        return
    for number, (value, order, block) in enumerate(target.returns):
        yield values.of(_with(values, node, value, literals, number), At(target, order + 1, block))


def _literals(node: ast.Call, names: list[str]) -> dict[str, ast.Constant]:
    """The literals that a call gives, by parameter."""
    named = ((one.arg, one.value) for one in node.keywords if one.arg is not None and one.arg in names)
    given = [*zip(names, node.args, strict=False), *named]
    return {name: value for name, value in given if isinstance(value, ast.Constant)}


def _with(values: Values, node: ast.Call, body: ast.expr, literals: dict[str, ast.Constant], number: int) -> ast.expr:
    """An expression with literals in place of names; one and the same for each call."""
    key = (id(node), number)
    if key not in values.written_out:
        values.written_out[key] = _Replaced(literals).visit(copy.deepcopy(body))
    written = values.written_out[key]
    assert written is not None
    return written


def _of_member(values: Values, node: ast.Call, target: Scope) -> dict[str, ast.Constant]:
    """`self.value` in a method that is called of a member of an enum: `Variable.RANK.read()`."""
    cls, member = target.parent, node.func.value if isinstance(node.func, ast.Attribute) else None
    if (
        cls is None
        or not cls.is_class
        or not isinstance(member, ast.Attribute)
        or not values.project.is_a(cls, "Enum", "StrEnum")
    ):
        return {}
    given = cls.definitions.get(member.attr, [])
    value = given[0].value if len(given) == 1 else None
    return {"self.value": value} if isinstance(value, ast.Constant) else {}


def _key(node: ast.AST) -> str:
    return dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""


class _Replaced(ast.NodeTransformer):
    """Puts literals in place of names and attributes."""

    def __init__(self, by: dict[str, ast.Constant]) -> None:
        self.by = by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = self.by.get(dotted(node))
        if found is None:
            self.generic_visit(node)
        return found or node
