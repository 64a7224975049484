"""Which branches of a function one call of it takes: those whose tests the literals decide that the call gives."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ddpdoctor.source.dataflow.literals import decided_by
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.syntax.scopes import Block, Definition, Scope

MOST_LEFT = 8  # branches of one block that leave: factories have few
MOST_DEFINITIONS = 12  # of one name


def is_dead(values: Values, block: Block, scope: Scope) -> bool:
    """Whether the call by which a function is looked at never reaches a block of it."""
    if values.context is None or values.context_in(scope) is None:
        return False
    at: Block | None = block
    while at is not None:
        if at.form in {"if", "else"} and isinstance(at.node, ast.If) and _is_passed_over(values, at, scope):
            return True
        at = at.parent
    return False


def _tests(block: Block, scope: Scope) -> tuple[list[ast.expr], At]:
    """The tests of the branches of an `if` up to a block, its own last, and the place where they are asked."""
    tests: list[ast.expr] = []
    node: ast.stmt | None = block.node if isinstance(block.node, ast.If) else None
    while isinstance(node, ast.If) and len(tests) <= block.branch:
        tests.append(node.test)
        node = node.orelse[0] if len(node.orelse) == 1 else None
    return tests, At(scope, block.order, block.parent or block)


def _is_passed_over(values: Values, block: Block, scope: Scope) -> bool:
    tests, at = _tests(block, scope)
    before = tests[: block.branch]
    if any(decided_by(values, test, at) is True for test in before):
        return True
    return block.form == "if" and bool(tests) and decided_by(values, tests[-1], at) is False


def is_taken(values: Values, block: Block, scope: Scope) -> bool:
    """Whether the call by which a function is looked at reaches a block wherever it reaches the one around it."""
    if values.context_in(scope) is None or not isinstance(block.node, ast.If):
        return False
    tests, at = _tests(block, scope)
    known = [decided_by(values, test, at) for test in tests]
    last = block.form == "if"  # an `else` has no test of its own
    return bool(known) and all(one is False for one in known[: len(known) - last]) and (not last or known[-1] is True)


def alive(values: Values, function: Scope) -> list[tuple[ast.expr, int, Block]]:
    """What a function returns, without what the call by which it is looked at never reaches."""
    if values.context_in(function) is None:
        return function.returns
    return [each for each in function.returns if not _return_is_dead(values, each, function)]


def _return_is_dead(values: Values, each: tuple[ast.expr, int, Block], function: Scope) -> bool:
    _, order, block = each
    return is_dead(values, block, function) or has_left(values, block, order, function)


def has_left(values: Values, block: Block, order: int, function: Scope) -> bool:
    """Whether the call by which a function is looked at has left it before a place in a block."""
    if values.context is None:
        return False
    around: Block | None = block
    while around is not None:
        for ended_at, ended in around.ended[:MOST_LEFT]:
            gone = ended_at < order and ended.ends in {"return", "raise", "exit"} and not block.inside(ended)
            if gone and is_taken(values, ended, function):
                return True
        around = around.parent
    return False


def reached(values: Values, definitions: Sequence[Definition], scope: Scope) -> Sequence[Definition]:
    """The definitions of a name without those that the call by which its function is looked at never reaches."""
    if values.context is None or values.context_in(scope) is None or len(definitions) > MOST_DEFINITIONS:
        return definitions
    return [one for one in definitions if one.block is scope.root or not is_dead(values, one.block, scope)]
