"""Loops that only wait: `while not os.path.exists(path): time.sleep(1)`, and what they wait for."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
}
_INVERSE |= {other: one for one, other in _INVERSE.items()}
_SAYS = frozenset({"print", "debug", "info", "warning", "error", "log", "write", "flush"})
_READS_THE_CLOCK = frozenset({"time", "monotonic", "perf_counter", "now"})
_SLEEP = "sleep"


def awaited(loop: ast.For | ast.AsyncFor | ast.While) -> ast.expr | None:
    """The condition that ends a loop whose turns only sleep, and perhaps say so; None of every other loop.

    It is the inverse of the loop's own test, or the test of the first `if` with a `break` or `return` of a `while True`. A test
    that reads a clock, or what the loop counts itself, ends in any case: that is a long sleep, or the loop's own deadline.
    """
    if not isinstance(loop, ast.While) or not _only_sleeps(loop.body):
        return None
    if not isinstance(loop.test, ast.Constant):
        return None if _ends_by_itself(loop.test, loop) else _inverse(loop.test)
    leaves = (
        one.test for one in loop.body if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Break | ast.Return)
    )
    return next((test for test in leaves if not _ends_by_itself(test, loop)), None) if loop.test.value else None


def _ends_by_itself(test: ast.expr, loop: ast.While) -> bool:
    """Whether the test reads a clock, or a name that the loop assigns."""
    assigned = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return not assigned.isdisjoint(names) or not _READS_THE_CLOCK.isdisjoint(_called(test))


def _only_sleeps(body: Sequence[ast.stmt]) -> bool:
    """Whether one of these statements sleeps, and the others say or count something, or leave the loop under a test."""
    plain = [one for one in body if not isinstance(one, ast.If)]
    branches = [inner for one in body if isinstance(one, ast.If) for inner in (*one.body, *one.orelse)]
    leaves = (ast.Break, ast.Return, ast.Raise, ast.Continue, ast.Pass)
    called = {
        name for one in (*plain, *branches) if not isinstance(one, ast.Raise | ast.Return) for name in _called(one)
    }
    return (
        any(_SLEEP in _called(one) for one in plain)
        and called <= {_SLEEP, *_SAYS, *_READS_THE_CLOCK}
        and all(isinstance(one, ast.Expr | ast.Assign | ast.AugAssign | ast.Pass) for one in plain)
        and all(isinstance(one, (ast.Expr, *leaves)) for one in branches)
    )


def _called(code: ast.AST) -> set[str]:
    """The last names of what a statement or an expression calls."""
    called = (node.func for node in ast.walk(code) if isinstance(node, ast.Call))
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else "" for one in called
    }


def _inverse(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in _INVERSE:
            return ast.Compare(left=left, ops=[_INVERSE[type(op)]()], comparators=comparators)
        case _:
            return ast.UnaryOp(op=ast.Not(), operand=test)
