"""The name that counts the turns of a loop, `i` of `for i, batch in enumerate(loader)`, and whether their number is fixed."""

from __future__ import annotations

import ast
import re

from ddpdoctor.source.syntax.scopes import Scope

_COUNTS = re.compile(r"(?:^|_)(?:step|iter|iteration|it|i|idx|index|batch_nr|batch_no|num|number)$")
"""Names that programs give to a count which another function yields."""


def counter_of(loop: ast.For | ast.AsyncFor | ast.While) -> str:
    """The name; empty where nothing counts the turns upwards, in steps of the same size on every rank."""
    if isinstance(loop, ast.While):
        return ""
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
    if not isinstance(first, ast.Name):
        return ""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=args) if len(args) < 3:
            return first.id
        case ast.Call(func=ast.Name(id="enumerate")) if isinstance(loop.target, ast.Tuple):
            return first.id
    named = isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call) and _COUNTS.search(first.id)
    return first.id if named else ""


def turns_are_fixed(loop: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> bool:
    """Whether it goes over a `range` of numbers that stand in the file: as literals, or under names that get no other value."""
    match loop.iter if not isinstance(loop, ast.While) else None:
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
            return bool(args) and all(_is_a_number(one, scope) for one in args)
    return False


def _is_a_number(node: ast.expr, scope: Scope) -> bool:
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.Name(id=name):
            return _is_named_number(name, scope)
    return False


def _is_named_number(name: str, scope: Scope) -> bool:
    """Whether the nearest function or module around that gives the name a value gives it one number, and nothing else."""
    at: Scope | None = scope
    while at is not None:
        given = at.definitions.get(name, [])
        if name in at.parameters or name in at.globals or name in at.imports:
            return False
        if given:
            value = given[0].value
            return (
                len(given) == 1 and given[0].form == "assign" and isinstance(value, ast.Constant) and not given[0].index
            )
        at = at.parent
    return False


def never_holds(node: ast.expr, scope: Scope) -> bool:
    """Whether a test waits for a count that `range` never gives: `step == steps` in `for step in range(steps)`."""
    match node:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.GtE()], comparators=[bound]):
            given = scope.definitions.get(name, ())
        case _:
            return False
    counted = given[0].value if len(given) == 1 and given[0].form == "for" and not given[0].index else None
    match counted:
        case ast.Call(func=ast.Name(id="range"), args=[stop] | [_, stop]):
            return ast.unparse(stop) == ast.unparse(bound)
    return False
