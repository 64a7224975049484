"""The asynchronous send or receive that a line of the user's source waits for, where the source tells which one that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.host.owned_files import read_source
from ddpdoctor.source.stack_lines.call_expressions import MAX_SOURCE_BYTES, call_of_torch, names_in
from ddpdoctor.source.stack_lines.call_roots import RootArgument

# what makes the handle, with the half of a transfer that it is, and the arguments and place of the partner
MADE_BY = {"isend": ("send", ("dst",), 1), "irecv": ("recv", ("src",), 1)}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedTransfer:
    """A send or receive in the default group."""

    op: str
    """`send` or `recv`."""
    partner: RootArgument
    """The rank that it sends to, or receives from."""


def waited_transfer(file: str, line: int, owner: int | None = None) -> WaitedTransfer | None:
    """What the only `wait()` at this line waits for: the call itself, or the only one that its function assigns to that name.

    None where the source does not tell, or the partner may follow from anything but constants, variables and the rank, or from
    a variable that the function assigns behind the call.
    """
    try:
        text = read_source(Path(file), owner, most=MAX_SOURCE_BYTES)
        tree = ast.parse(text) if text is not None else None
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    made = [*_made(tree, line)] if tree is not None else []
    if len(made) != 1:
        return None
    for name, (op, arguments, place) in MADE_BY.items():
        found = call_of_torch(file, made[0].lineno, name, owner)
        given = found.argument(arguments, place) if found is not None else None
        names = names_in(given) if given is not None else None
        if found is None or given is None or names is None or found.changes(names, found.call.lineno + 1):
            continue
        partner = RootArgument(expression=given, names=names, ranks=names & found.ranks, varies=bool(found.loops))
        return WaitedTransfer(op=op, partner=partner)
    return None


def _made(tree: ast.Module, line: int) -> Iterator[ast.Call]:
    """The calls that made the handles on which the line calls `wait`."""
    for function in (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)):
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=handle, attr="wait")) if node.lineno == line:
                    yield from _handle(handle, function, line)


def _handle(handle: ast.expr, function: ast.AST, line: int) -> Iterator[ast.Call]:
    match handle:
        case ast.Call():
            yield handle
        case ast.Name(id=name):
            stored = [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
            ]
            for node in ast.walk(function) if len(stored) == 1 else ():
                match node:
                    case ast.Assign(targets=[ast.Name(id=assigned)], value=ast.Call() as call) if assigned == name:
                        if call.lineno <= line:
                            yield call
