"""Takes expressions and statements out into functions of their own."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tests.rewritten.trees import (
    FUNCTIONS,
    Function,
    Program,
    at_top,
    fresh,
    has,
    leaves,
    loads,
    marked,
    parameters,
    statements,
    stores,
)


def names_of(function: Function) -> set[str]:
    """The names that are a function's own."""
    shared = {name for one in ast.walk(function) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    return {*parameters(function), *stores(function.body)} - shared


def _definition(name: str, given: Sequence[str], body: Sequence[ast.stmt]) -> ast.stmt:
    (function,) = statements(f"def N({', '.join(given)}):\n    B", N=name, B=body)
    return function


def _call(name: str, given: Sequence[str]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in given], [])


def placed(program: Program, tree: ast.Module, function: Function, definition: ast.stmt, needs: Sequence[str]) -> None:
    """Put a new function before the one that it was taken from, where that stands in the module; else at its top."""
    if function in tree.body:
        tree.body.insert(tree.body.index(function), definition)
        return
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and function in one.body]
    if classes:
        tree.body.insert(tree.body.index(classes[0]), definition)
    else:
        at_top(tree, [definition])


def extracted_expression(
    program: Program, tree: ast.Module, function: Function, node: ast.expr, stem: str, mark: ast.stmt | None = None
) -> ast.expr:
    """A call of a new function of the module in the place of an expression; a mark goes with the expression."""
    name, inner = fresh(program, stem), set(stores([node]))
    own = names_of(function) | _around(tree, function)
    given = [one for one in loads([node]) if one in own and one not in inner]
    answer: ast.stmt = ast.Return(node)
    if mark is not None and hasattr(mark, "mark"):
        answer = marked(answer, mark)
        del mark.mark
    placed(program, tree, function, _definition(name, given, [answer]), given)
    return _call(name, given)


def _around(tree: ast.Module, function: Function) -> set[str]:
    """The names of functions around a function."""
    outer = [
        one for one in ast.walk(tree) if isinstance(one, FUNCTIONS) and one is not function and _holds(one, function)
    ]
    return set().union(*(names_of(one) for one in outer))


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(one is inner for one in ast.walk(outer))


def extracted_statements(
    program: Program, tree: ast.Module, function: Function, block: list[ast.stmt], first: int, end: int, stem: str
) -> bool:
    """Take statements of a block out into a function of the module, which returns what the others read of theirs."""
    taken = block[first:end]
    unfit = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
    if not taken or has(taken, *unfit) or leaves(taken) or "super()" in "".join(ast.unparse(one) for one in taken):
        return False
    rest = [
        one for one in ast.walk(function) if isinstance(one, ast.Name) and not any(_holds(part, one) for part in taken)
    ]
    before = {
        *parameters(function),
        *(one.id for one in rest if isinstance(one.ctx, ast.Store)),
        *_around(tree, function),
    }
    before |= {
        name for one in ast.walk(function) if isinstance(one, FUNCTIONS) and one is not function for name in [one.name]
    }
    read, bound = loads(taken), set(stores(taken))
    given = [one for one in read if one in before]
    if "self" in given:
        return False  # nobody gives a method's object to a function of the module
    later = {one.id for one in rest if isinstance(one.ctx, ast.Load)}
    looped = {one for one in given if one in bound}
    back = sorted(bound & (later | looped))
    if any(name not in given for name in back if name not in stores(_always(taken))):
        return False
    name = fresh(program, stem)
    answer = ast.Tuple([ast.Name(one, ast.Load()) for one in back], ast.Load())
    body = [*taken, *([ast.Return(answer if len(back) > 1 else answer.elts[0])] if back else [])]
    call = _call(name, given)
    target = ast.Tuple([ast.Name(one, ast.Store()) for one in back], ast.Store())
    new: ast.stmt = ast.Assign([target if len(back) > 1 else target.elts[0]], call) if back else ast.Expr(call)
    block[first:end] = [new]
    placed(program, tree, function, _definition(name, given, body), given)
    return True


def _always(taken: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Those of the statements that bind their names in any case."""
    return [
        one for one in taken if isinstance(one, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.FunctionDef)
    ]
