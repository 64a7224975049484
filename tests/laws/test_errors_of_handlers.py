"""What a signal handler of the job raises while the agent is at work reaches the job: nothing in a rank may take it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

INSIDE = Path(__file__).parents[2] / "ddpdoctor" / "agent" / "inside"
SORTS = {"pass_on", "_failed", "failed_in_backward", "hold"}  # they ask first whose error it is
NO_HANDLER_RAISES = {"ImportError", "StopIteration"}
C_FUNCTIONS = {"append", "pop"}  # no handler runs in these


def names_of(node: ast.expr | None) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node is not None else {"BaseException"}


def is_call_of(node: ast.AST, names: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "attr", getattr(node.func, "id", "")) in names


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether every way through it asks whose error it is, or raises."""
    return any(
        isinstance(statement, ast.Raise) or (isinstance(statement, ast.Expr) and is_call_of(statement.value, SORTS))
        for statement in handler.body
    )


def takes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and not names_of(node.type) <= NO_HANDLER_RAISES and not passes_on(node):
            yield node.lineno, "an `except` without `pass_on(error)` of signal_errors.py"
        elif is_call_of(node, {"suppress"}):
            yield node.lineno, "`contextlib.suppress`: use `job_keeps` of signal_errors.py"
        elif isinstance(node, ast.Try):
            for left in (one for statement in node.finalbody for one in ast.walk(statement)):
                if isinstance(left, (ast.Return, ast.Break, ast.Continue)):
                    yield left.lineno, "leaving a `finally` drops the error"
        elif is_call_of(node, {"ref", "KeyedRef", "finalize"}) and len(node.args) > 1:  # type: ignore[attr-defined]
            called = node.args[1]  # type: ignore[attr-defined]
            called = called.args[0] if is_call_of(called, {"partial"}) else called
            if getattr(called, "attr", "") not in C_FUNCTIONS:
                yield node.lineno, "Python drops what is raised in the callback of a weak reference: call a C function"
        elif is_call_of(node, {"exists", "isfile", "isdir"}):
            yield node.lineno, "os.path takes a TimeoutError of a handler: ask os.access or os.stat"


@pytest.mark.parametrize("file", sorted(INSIDE.rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_takes_the_error_of_a_handler(file: Path) -> None:
    if file.name == "signal_errors.py":
        return
    found = [f"{file.name}:{line}: {what}" for line, what in takes(ast.parse(file.read_text()))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "try: look()\nexcept Exception: pass",
        "try: look()\nexcept: pass",
        "try: look()\nexcept (TypeError, OSError) as error: log(error)",
        "try: look()\nexcept OSError as error:\n    if odd: pass_on(error)",
        "with contextlib.suppress(OSError): look()",
        "def f():\n    try: look()\n    finally: return 1",
        "weakref.ref(one, lambda _: forget())",
        "weakref.ref(one, functools.partial(self._forget, 1))",
        "os.path.exists(path)",
    ],
)
def test_the_law_sees_what_takes_one(code: str) -> None:
    assert list(takes(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "try: look()\nexcept OSError as error:\n    pass_on(error)",
        "try: look()\nexcept BaseException:\n    leave()\n    raise",
        "try: import numpy\nexcept ImportError: numpy = None",
        "with job_keeps(OSError): look()",
        "weakref.ref(one, functools.partial(self._held.pop, 1))",
        "weakref.ref(one)",
    ],
)
def test_the_law_is_silent_about_what_passes_it_on(code: str) -> None:
    assert not list(takes(ast.parse(code)))
