"""Functions of the program that show what they are given: `def say(*args): if rank == 0: print(*args)`."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.syntax.scopes import RawCall, Scope

_SHOWS = frozenset({"print", "log"})
_WRITES = frozenset({"write", "writerow", "write_text"})
"""Methods of files that take what they write, and no path."""


def shows_what_it_gets(function: Scope, own_methods: Container[str]) -> bool:
    """Whether a function prints or logs one of its parameters, as it is or in a text.

    What a method of the program's own makes of a parameter is another value: `meter.compute()` may sum over all ranks.
    """
    given = {*function.parameters, *_rest(function)} - {"self", "cls"}
    return bool(given) and any(
        part.id in given for call in function.calls if _shows(call) for part in _names_given(call.node, own_methods)
    )


def _shows(call: RawCall) -> bool:
    if isinstance(call.meant, str) and call.meant in names.FUNCTIONS:
        return names.FUNCTIONS[call.meant] in _SHOWS
    method = call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""
    return method in _WRITES or names.METHODS.get(method, "") in _SHOWS


def _rest(function: Scope) -> Iterator[str]:
    """The names of `*args` and `**kwargs`."""
    given = getattr(function.node, "args", None)
    for one in (given.vararg, given.kwarg) if isinstance(given, ast.arguments) else ():
        if one is not None:
            yield one.arg


def _names_given(node: ast.Call, own_methods: Container[str]) -> Iterator[ast.Name]:
    """The names in what a call is given, without the objects whose own methods are called there."""
    parts = [part for argument in (*node.args, *(one.value for one in node.keywords)) for part in ast.walk(argument)]
    asked = {
        id(part.func.value)
        for part in parts
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in own_methods
    }
    yield from (part for part in parts if isinstance(part, ast.Name) and id(part) not in asked)
