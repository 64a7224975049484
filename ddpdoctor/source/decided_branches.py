"""Which branches of a function one call of it takes: those whose tests the literals decide that the call gives."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpdoctor.evidence.training_code import Kind
from ddpdoctor.source.origins import At
from ddpdoctor.source.scopes import Block, Definition, Scope

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values


DEEPEST = 8  # `not` and `and` within each other, of one test
MOST_LEFT = 8  # branches of one block that leave: factories have few
MOST_DEFINITIONS = 12  # of one name


@dataclass(frozen=True, slots=True)
class Literal:
    """The literal that an expression holds, whatever else the program does."""

    value: object


def literal(values: Values, node: ast.expr, at: At) -> Literal | None:
    """The only literal that an expression can hold; None where it can hold anything else."""
    if isinstance(node, ast.Constant):
        return Literal(node.value)
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return None
    found = values.of(node, at)
    if len(found) != 1 or found[0].kind is not Kind.CONSTANT:
        return None
    try:
        return Literal(ast.literal_eval(found[0].text))
    except (ValueError, SyntaxError):
        return None


def decided_by(values: Values, test: ast.expr, at: At, depth: int = DEEPEST) -> bool | None:
    """Whether a test holds; None where its literals do not say so."""
    if not depth:
        return None
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided_by(values, operand, at, depth - 1)
            return None if inner is None else not inner
        case ast.BoolOp(op=operator, values=parts):
            known = [decided_by(values, part, at, depth - 1) for part in parts]
            ends = isinstance(operator, ast.Or)  # of `or` a part that holds decides, of `and` one that does not
            return ends if ends in known else None if None in known else not ends
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compared(values, left, operator, right, at)
        case ast.UnaryOp() | ast.Compare():
            return None
    held = literal(values, test, at)
    return None if held is None else bool(held.value)


def _compared(values: Values, left: ast.expr, operator: ast.cmpop, right: ast.expr, at: At) -> bool | None:
    mine = literal(values, left, at)
    if mine is None:
        return None
    if isinstance(operator, ast.In | ast.NotIn):
        listed = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
        theirs = [literal(values, part, at) for part in listed]
        if not theirs or None in theirs:
            return None
        return (mine in theirs) is isinstance(operator, ast.In)
    other = literal(values, right, at)
    if other is None or not isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return None
    return (mine == other) is isinstance(operator, ast.Eq | ast.Is)


def is_dead(values: Values, block: Block, scope: Scope) -> bool:
    """Whether the call by which a function is looked at never reaches a block of it."""
    if values.context_in(scope) is None:
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


def _is_taken(values: Values, block: Block, scope: Scope) -> bool:
    tests, at = _tests(block, scope)
    known = [decided_by(values, test, at) for test in tests]
    if block.form == "if":
        return bool(known) and known[-1] is True and all(one is False for one in known[:-1])
    return bool(known) and all(one is False for one in known)


def is_taken(values: Values, block: Block, scope: Scope) -> bool:
    """Whether the call by which a function is looked at reaches a block wherever it reaches the one around it."""
    return values.context_in(scope) is not None and isinstance(block.node, ast.If) and _is_taken(values, block, scope)


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
    if values.context_in(scope) is None or len(definitions) > MOST_DEFINITIONS:
        return definitions
    return [one for one in definitions if one.block is scope.root or not is_dead(values, one.block, scope)]
