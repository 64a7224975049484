"""Other ways to write a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.rewritten.extraction import extracted_expression
from tests.rewritten.trees import (
    FUNCTIONS,
    Function,
    Program,
    blocks,
    dotted,
    expression,
    fresh,
    has,
    last_name,
    leaves,
    marked,
    statements,
)

_RANK = re.compile(r"rank", re.IGNORECASE)


def _is_rank(node: ast.expr) -> bool:
    name = last_name(node) if isinstance(node, ast.Call) else dotted(node).rpartition(".")[2]
    return _RANK.search(name) is not None and "zero" not in name


class _Tests(ast.NodeTransformer):
    """Writes each test whether a rank is 0, or is not, in another way."""

    def __init__(self, first: str, others: str) -> None:
        self.first, self.others, self.changed = first, others, 0

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        zero = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value == 0
        if len(node.ops) > 1 or not zero or not isinstance(node.ops[0], ast.Eq | ast.NotEq) or not _is_rank(node.left):
            return self.generic_visit(node)
        self.changed += 1
        return expression(self.first if isinstance(node.ops[0], ast.Eq) else self.others, R=node.left)


def compared(first: str, others: str) -> Callable[[Program], int]:
    """`rank == 0` and `rank != 0` in other words."""

    def rewrite(program: Program) -> int:
        writer = _Tests(first, others)
        for tree in program.values():
            writer.visit(tree)
        return writer.changed

    return rewrite


def _tests(program: Program) -> Iterator[tuple[list[ast.stmt], int, ast.If, Function | None, ast.Module]]:
    """The `if` statements, that of `__name__` apart, last first so that statements can be put before them."""
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for number in reversed(range(len(block))):
                one = block[number]
                if isinstance(one, ast.If) and "__name__" not in ast.dump(one.test):
                    yield block, number, one, function, tree


def named(program: Program) -> int:
    """`wanted = TEST` and `if wanted:`."""
    count = 0
    for block, number, one, _, _ in _tests(program):
        name = fresh(program, "wanted")
        block[number:number] = statements("N = T", N=name, T=one.test)
        one.test = ast.Name(name, ast.Load())
        count += 1
    return count


def by_walrus(program: Program) -> int:
    """`if (wanted := TEST):`."""
    count = 0
    for _, _, one, _, _ in _tests(program):
        one.test = ast.NamedExpr(ast.Name(fresh(program, "wanted"), ast.Store()), one.test)
        count += 1
    return count


def by_lambda(program: Program) -> int:
    """`wanted = lambda: TEST` and `if wanted():`."""
    count = 0
    for block, number, one, _, _ in _tests(program):
        if has([one.test], ast.NamedExpr):
            continue
        name = fresh(program, "wanted")
        block[number:number] = statements("N = lambda: T", N=name, T=one.test)
        one.test = expression("N()", N=name)
        count += 1
    return count


def by_function(program: Program) -> int:
    """A function of the module that answers the test: `if wanted(rank, loss):`."""
    count = 0
    for _, _, one, function, tree in _tests(program):
        if isinstance(one.test, ast.Name) or function is None or has([one.test], ast.NamedExpr):
            continue
        one.test = extracted_expression(program, tree, function, one.test, "wanted")
        count += 1
    return count


def inverted(program: Program) -> int:
    """`if not (TEST): pass` / `else:` what stood in the body."""
    count = 0
    for _, _, one, _, _ in _tests(program):
        one.test, one.body, one.orelse = expression("not (T)", T=one.test), one.orelse or [ast.Pass()], one.body
        count += 1
    return count


def with_another(program: Program) -> int:
    """`if TEST and verbose:` of a constant of the module that is True: in a test of the rank it adds nothing."""
    count = 0
    for _, _, one, _, tree in _tests(program):
        if not one.orelse and _RANK.search(ast.unparse(one.test)):
            one.test = expression("T and VERBOSE", T=one.test)
            tree.body[:0] = statements("VERBOSE = True") if not count else []
            count += 1
    return count


def nested(program: Program) -> int:
    """`if a and b:` as `if a:` / `if b:`."""
    count = 0
    for _, _, one, _, _ in _tests(program):
        if isinstance(one.test, ast.BoolOp) and isinstance(one.test.op, ast.And) and not one.orelse:
            first, *rest = one.test.values
            inner = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
            one.test, one.body = first, [ast.If(inner, one.body, [])]
            count += 1
    return count


def matched(program: Program) -> int:
    """`match TEST:` with `case True:`, or `match rank:` with `case 0:`."""
    count = 0
    for block, number, one, _, _ in _tests(program):
        subject, pattern = expression("bool(T)", T=one.test), expression("True")
        test = one.test
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and _is_rank(test.left):
            subject, pattern = test.left, test.comparators[0]
        elif not _RANK.search(ast.unparse(test)):
            continue
        value = pattern.value if isinstance(pattern, ast.Constant) else None
        case = ast.MatchSingleton(value) if value is True else ast.MatchValue(pattern)
        rest = one.orelse or [ast.Pass()]
        cases = [ast.match_case(case, None, one.body), ast.match_case(ast.MatchAs(), None, rest)]
        block[number] = marked(ast.Match(subject, cases), one)
        count += 1
    return count


def left_early(program: Program) -> int:
    """`if not TEST: return` and then the body, where the `if` is the last statement of a function; `continue` in a loop."""
    count = 0
    for tree in program.values():
        for holder in list(ast.walk(tree)):
            if not isinstance(holder, (*FUNCTIONS, ast.For)) or not isinstance(one := holder.body[-1], ast.If):
                continue
            if one.orelse or getattr(holder, "orelse", []) or has([holder], ast.Yield):
                continue
            away: ast.stmt = ast.Continue() if isinstance(holder, ast.For) else ast.Return()
            guard = marked(ast.If(expression("not (T)", T=one.test), [away], []), one)
            if isinstance(holder, ast.For) and leaves(one.body) and hasattr(one, "mark"):
                continue
            holder.body[-1:] = [guard, *one.body]
            count += 1
    return count


def chosen(program: Program) -> int:
    """`x = a if TEST else b` for the two assignments of an `if`."""
    count = 0
    for block, number, one, _, _ in _tests(program):
        parts = [*one.body, *one.orelse]
        if len(one.body) != 1 or len(one.orelse) != 1 or not all(isinstance(part, ast.Assign) for part in parts):
            continue
        there, other = parts
        assert isinstance(there, ast.Assign)
        assert isinstance(other, ast.Assign)
        if ast.dump(there.targets[0]) != ast.dump(other.targets[0]):
            continue
        new = ast.Assign(there.targets, ast.IfExp(one.test, there.value, other.value))
        block[number] = marked(marked(marked(new, one), there), other)
        count += 1
    return count
