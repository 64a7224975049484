"""The environment variables that a Python program overwrites on its way, whatever its launcher gave it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

LOADS_A_FILE = "load_dotenv"


@dataclass(frozen=True, slots=True)
class Overwritten:
    """One variable that a program sets."""

    name: str
    """The variable."""
    value: str
    """The expression that it gets, as written."""
    line: int
    """The line of the statement in its file, from 1."""
    conditional: bool = False
    """Whether it stands under an `if`."""


def overwritten(text: str, *, conditional: bool = False) -> tuple[Overwritten, ...]:
    """Every `os.environ["NAME"] = ...` that always happens; none for `setdefault`, nor under a condition or a handler.

    With `conditional`, also those under an `if`, marked so. A program that does not parse, or nests too deep,
    overwrites nothing that we know of.
    """
    tree = _parsed(text)
    try:
        found = tuple(_in(tree.body)) if tree is not None else ()
    except RecursionError:  # expressions and branches nested as no person writes them
        return ()
    return tuple(one for one in found if conditional or not one.conditional)


def sets_unnamed(text: str) -> tuple[int, ...]:
    """The lines that set environment variables which the source does not name: a loop, a dict from a file, a dotenv file."""
    tree = _parsed(text)
    nodes = [*ast.walk(tree)] if tree is not None else []
    own = any(isinstance(node, ast.FunctionDef) and node.name == LOADS_A_FILE for node in nodes)
    return tuple(sorted({node.lineno for node in nodes if _is_unnamed(node) or (not own and _loads_a_file(node))}))


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_unnamed(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    """Whether this is `os.environ[name] = ...` or `os.environ.update(values)`."""
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Subscript)
            and _is_environ(target.value)
            and not isinstance(target.slice, ast.Constant)
            for target in node.targets
        )
    if not isinstance(node, ast.Call):
        return False
    updates = isinstance(node.func, ast.Attribute) and node.func.attr == "update" and _is_environ(node.func.value)
    return updates and (
        any(not isinstance(given, ast.Dict) or None in given.keys for given in node.args)
        or any(keyword.arg is None for keyword in node.keywords)
    )


def _in(body: list[ast.stmt]) -> Iterator[Overwritten]:
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if (name := _variable(target)) is not None:
                    yield Overwritten(name, _value(statement.value), statement.lineno)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield from _update(statement.value)
        elif isinstance(statement, ast.If):
            is_main = _is_main(statement.test)
            yield from (replace(one, conditional=one.conditional or not is_main) for one in _in(statement.body))
            yield from (replace(one, conditional=True) for one in _in(statement.orelse))
        elif isinstance(statement, ast.FunctionDef | ast.With | ast.Try):
            yield from _in(statement.body)


def _loads_a_file(node: ast.AST) -> TypeGuard[ast.expr]:
    """Whether this is the call `load_dotenv()` of the package of that name."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (isinstance(function, ast.Name) and function.id == LOADS_A_FILE) or (
        isinstance(function, ast.Attribute) and function.attr == LOADS_A_FILE
    )


def _variable(target: ast.expr) -> str | None:
    """The name in `os.environ["NAME"]` or `environ["NAME"]`."""
    if (
        isinstance(target, ast.Subscript)
        and _is_environ(target.value)
        and isinstance(target.slice, ast.Constant)
        and isinstance(target.slice.value, str)
    ):
        return target.slice.value
    return None


def _update(call: ast.Call) -> Iterator[Overwritten]:
    """The names in `os.environ.update(NAME=...)` and `os.environ.update({"NAME": ...})`."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "update" and _is_environ(call.func.value)):
        return
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield Overwritten(keyword.arg, _value(keyword.value), keyword.value.lineno)
    for given in call.args:
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield Overwritten(key.value, _value(value), key.lineno)


def _is_environ(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "environ" and isinstance(node.value, ast.Name) and node.value.id == "os"
    return isinstance(node, ast.Name) and node.id == "environ"


def _is_main(test: ast.expr) -> bool:
    return ast.unparse(test).replace('"', "'") == "__name__ == '__main__'"


def _value(node: ast.expr) -> str:
    """The text of a literal, else the expression as it stands."""
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
