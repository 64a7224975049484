"""Programs as syntax trees that rewrites change in place; the marks of planted mistakes go with their statements."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

Program: TypeAlias = dict[str, ast.Module]
"""The modules of a program by file name."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OWN_NAMES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
_MARK = re.compile(r"#! ([A-Z0-9 ]+)$")
_MARKER = re.compile(r"^\s*(?:'|\"\"\")<mark ([A-Z0-9 ]+)>(?:'|\"\"\")\n(.*)$", re.MULTILINE)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# text to trees and back


def read(files: dict[str, str]) -> Program:
    """The trees of the Python files; each marked line is noted at the innermost statement around it."""
    trees: Program = {}
    for name, text in files.items():
        if name.endswith(".py"):
            trees[name] = ast.parse(text)
            for number, line in enumerate(text.split("\n"), start=1):
                if found := _MARK.search(line):
                    _innermost(trees[name], number).mark = found[1]  # type: ignore[attr-defined]
    return trees


def _innermost(tree: ast.Module, line: int) -> ast.stmt:
    around = [
        one for one in ast.walk(tree) if isinstance(one, ast.stmt) and _first(one) <= line <= (one.end_lineno or 0)
    ]
    if not around:  # a comment of its own: the mark of what stands below
        around = [one for one in ast.walk(tree) if isinstance(one, ast.stmt) and one.lineno > line] or tree.body[-1:]
    return min(around, key=lambda one: (one.end_lineno or 0) - _first(one))


def _first(statement: ast.stmt) -> int:
    return min(one.lineno for one in (statement, *getattr(statement, "decorator_list", ())))


def written(program: Program) -> dict[str, str]:
    """The program as text, with its marks."""
    return {name: _text(tree) for name, tree in program.items()}


def _text(tree: ast.Module) -> str:
    tree = copy.deepcopy(tree)
    for block, _ in list(blocks(tree)):
        block[:] = [part for one in block for part in _with_marker(one)]
    return _MARKER.sub(r"\2  #! \1", ast.unparse(ast.fix_missing_locations(tree))) + "\n"


def _with_marker(statement: ast.stmt) -> Iterator[ast.stmt]:
    if mark := getattr(statement, "mark", ""):
        yield ast.Expr(ast.Constant(f"<mark {mark}>"))
    yield statement


# templates


def statements(template: str, **parts: ast.expr | Sequence[ast.stmt] | str) -> list[ast.stmt]:
    """The statements of a template; a name of `parts` stands for a name, an expression or a block of statements there."""
    return _Filled(parts).visit(ast.parse(template)).body  # type: ignore[no-any-return]


def expression(template: str, **parts: ast.expr | str) -> ast.expr:
    """The expression of a template, as `statements`."""
    (statement,) = statements(template, **parts)
    assert isinstance(statement, ast.Expr)
    return statement.value


class _Filled(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr | Sequence[ast.stmt] | str]) -> None:
        self.parts = parts

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        given = self.parts.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return list(given) if isinstance(given, list | tuple) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        given = self.parts.get(node.id)
        if isinstance(given, str):
            return ast.Name(given, node.ctx)
        if isinstance(given, ast.expr):
            given = copy.deepcopy(given)
            if isinstance(node.ctx, ast.Store):
                stored(given)
            return given
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = _renamed(self.parts, node.name)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = _renamed(self.parts, node.name)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = _renamed(self.parts, node.attr)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = _renamed(self.parts, node.arg) if node.arg else None
        return self.generic_visit(node)


def _renamed(parts: dict[str, ast.expr | Sequence[ast.stmt] | str], name: str) -> str:
    given = parts.get(name)
    return given if isinstance(given, str) else name


def stored(target: ast.expr) -> ast.expr:
    """The expression as a target of an assignment."""
    for one in ast.walk(target):
        if isinstance(one, ast.Tuple | ast.List | ast.Starred) or one is target:
            one.ctx = ast.Store()  # type: ignore[attr-defined]
            for part in getattr(one, "elts", ()):
                stored(part)
    return target


def marked(new: ast.stmt, old: ast.stmt) -> ast.stmt:
    """A statement in the place of another, with its mark."""
    if hasattr(old, "mark"):
        new.mark = old.mark  # type: ignore[attr-defined]
    return new


def at_top(tree: ast.Module, new: Iterable[ast.stmt]) -> None:
    """Put statements behind the docstring, the imports and the `from __future__` of a module."""
    place = 0
    for number, one in enumerate(tree.body):
        docstring = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and not number
        if docstring or isinstance(one, ast.Import | ast.ImportFrom):
            place = number + 1
    tree.body[place:place] = list(new)


def imported(tree: ast.Module, *lines: str) -> None:
    """Add imports to a module."""
    place = sum(isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in tree.body)
    place += bool(tree.body and isinstance(tree.body[0], ast.Expr))
    tree.body[place:place] = [one for line in lines for one in ast.parse(line).body]


# blocks and names


def blocks(tree: ast.AST, function: Function | None = None) -> Iterator[tuple[list[ast.stmt], Function | None]]:
    """Every list of statements, with the function around it; inner ones come behind outer ones."""
    inside = tree if isinstance(tree, FUNCTIONS) else None if isinstance(tree, ast.ClassDef) else function
    for _, value in ast.iter_fields(tree):
        parts = value if isinstance(value, list) else [value]
        if parts and isinstance(parts[0], ast.stmt):
            yield value, inside
        for part in parts:
            if isinstance(part, ast.stmt | ast.excepthandler | ast.match_case):
                yield from blocks(part, inside)


def functions(tree: ast.Module) -> list[Function]:
    """The functions and methods of a module, outer ones first."""
    return [one for one in ast.walk(tree) if isinstance(one, FUNCTIONS)]


def within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and everything in them, but not what is in functions, classes and lambdas that stand there."""
    for node in nodes:
        yield node
        if not isinstance(node, OWN_NAMES):
            yield from within(ast.iter_child_nodes(node))


def parameters(function: Function) -> list[str]:
    """The names of a function's parameters."""
    given = function.args
    stars = [one for one in (given.vararg, given.kwarg) if one is not None]
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *stars)]


def stores(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements bind, each as often as it is bound; those of comprehensions not."""
    nodes = list(nodes)
    inner = {
        id(name)
        for node in within(nodes)
        if isinstance(node, _COMPREHENSIONS)
        for part in node.generators
        for name in ast.walk(part.target)
    }
    found: list[str] = []
    for node in within(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
            found.append(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [(one.asname or one.name).partition(".")[0] for one in node.names]
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
        ):
            found.append(node.name)
    return found


def loads(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements read, in order and each once, those in their functions too."""
    found = (one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name) and _reads(one))
    changed = (one.target.id for node in nodes for one in ast.walk(node)
               if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name))  # fmt: skip
    return list(dict.fromkeys([*found, *changed]))


def _reads(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def has(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    """Whether statements contain a node of these kinds, that of inner functions apart."""
    return any(isinstance(one, kinds) for one in within(nodes))


def leaves(nodes: Iterable[ast.AST]) -> bool:
    """Whether statements contain a `break` or `continue` of a loop around them."""
    return any(
        isinstance(node, ast.Break | ast.Continue)
        or (not isinstance(node, (ast.For, ast.While, *OWN_NAMES)) and leaves(ast.iter_child_nodes(node)))
        or (isinstance(node, ast.For | ast.While) and leaves(node.orelse))
        for node in nodes
    )


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression; empty of others."""
    if isinstance(node, ast.Name):
        return node.id
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""


def last_name(call: ast.expr) -> str:
    """The last name of what is called: `barrier` of `dist.barrier()`."""
    if not isinstance(call, ast.Call):
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


class Replaced(ast.NodeTransformer):
    """Expressions in the place of names that are read, functions that bind such a name themselves apart."""

    def __init__(self, new: dict[str, ast.expr], *, targets: bool = False) -> None:
        self.new, self.targets = new, targets

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.new or not (self.targets or _reads(node)):
            return node
        given = copy.deepcopy(self.new[node.id])
        return given if _reads(node) else stored(given)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node, [*parameters(node), *stores(node.body)])

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node, [*parameters(node), *stores(node.body)])

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._function(node, [one.arg for one in ast.walk(node) if isinstance(one, ast.arg)])

    def _function(self, node: ast.AST, own: Collection[str]) -> ast.AST:
        outer, self.new = self.new, {name: value for name, value in self.new.items() if name not in own}
        self.generic_visit(node)
        self.new = outer
        return node


def fresh(program: Program, stem: str) -> str:
    """A name that the program does not have yet."""
    every = [one for tree in program.values() for one in ast.walk(tree)]
    taken = {one.id for one in every if isinstance(one, ast.Name)} | {
        one.arg for one in every if isinstance(one, ast.arg)
    }
    taken |= {one.name for one in every if isinstance(one, (*FUNCTIONS, ast.ClassDef))}
    number = 1
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
