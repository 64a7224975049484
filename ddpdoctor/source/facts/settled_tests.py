"""Tests that always go one way: `step % n == n`, and a name that a function sets once, to `False`."""

from __future__ import annotations

import ast

from ddpdoctor.source.syntax.bindings import bindings
from ddpdoctor.source.syntax.scopes import Scope

DEEPEST = 4  # names and `not` within each other


def settled(test: ast.expr, scope: Scope, depth: int = DEEPEST) -> bool | None:
    """Which way a test goes in every turn; None where the function does not say so by itself."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if depth:
            inner = settled(operand, scope, depth - 1)
            return None if inner is None else not inner
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=divisor), ops=[operator], comparators=[right]):
            return _of_remainder(operator) if ast.dump(divisor) == ast.dump(right) else None
        case ast.Name(id=name) if depth:
            only = _only_value(name, scope)
            return settled(only, scope, depth - 1) if only is not None else None
    return None


def _of_remainder(operator: ast.cmpop) -> bool | None:
    """What `x % n` compared with `n` gives: a remainder is below its divisor."""
    if isinstance(operator, ast.Eq | ast.GtE | ast.Gt):
        return False
    return True if isinstance(operator, ast.NotEq | ast.Lt | ast.LtE) else None


def _only_value(name: str, scope: Scope) -> ast.expr | None:
    """What a local name holds that is assigned once in its function, and by no other function."""
    given = scope.definitions.get(name, [])
    if name in scope.parameters or name in scope.globals or scope.parent is None or len(given) != 1:
        return None
    once = given[0].form == "assign" and not given[0].index and bindings(scope.node)[name] == 1
    return given[0].value if once else None
