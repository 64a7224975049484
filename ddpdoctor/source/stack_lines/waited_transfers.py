"""The asynchronous send or receive that a line of the user's source waits for, where the source tells which one that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.source.stack_lines.call_expressions import call_of_torch, names_in, stored_in
from ddpdoctor.source.stack_lines.call_roots import RootArgument
from ddpdoctor.source.stack_lines.source_files import source_tree

# what makes the handle, with the half of a transfer that it is, and the arguments and place of the partner
MADE_BY = {"isend": ("send", ("dst",), 1), "irecv": ("recv", ("src",), 1)}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class _Parameter(NamedTuple):
    """One parameter of a function of the user's."""

    function: str
    name: str
    place: int
    """Its place among the parameters, `self` included."""
    bound: bool
    """Whether a call by an attribute gives the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedTransfer:
    """A send or receive in the default group."""

    op: str
    """`send` or `recv`."""
    partner: RootArgument
    """The rank that it sends to, or receives from."""
    made: Frame
    """The line of the stack in whose function it was issued, by whose variables the partner is known."""


def waited_transfer(stack: Sequence[Frame], owner: int | None) -> WaitedTransfer | None:
    """What the only `wait()` at the innermost line of the user's waits for: the call itself, or the one assigned to that name.

    A name that is a parameter is what the calling line gives. None where the source does not tell, or the partner may follow
    from anything but constants, variables and the rank, or from a variable that the function assigns behind the call.
    """
    made = _issued(stack, owner)
    if made is None:
        return None
    for name, (op, arguments, place) in MADE_BY.items():
        found = call_of_torch(made[1].file, made[0].lineno, name, owner)
        given = found.argument(arguments, place) if found is not None else None
        names = names_in(given) if given is not None else None
        if found is None or given is None or names is None or found.changes(names, found.call.lineno + 1):
            continue
        partner = RootArgument(expression=given, names=names, ranks=names & found.ranks, varies=bool(found.loops))
        return WaitedTransfer(op=op, partner=partner, made=made[1])
    return None


def _issued(stack: Sequence[Frame], owner: int | None) -> tuple[ast.Call, Frame] | None:
    """The call that made the handle that is waited for, and the line of the stack in whose function it stands."""
    passed: _Parameter | None = None
    for frame in stack:
        tree = source_tree(frame.file, owner)
        if tree is None:
            return None
        found = [*(_waited(tree, frame) if passed is None else _passed(tree, frame, passed))]
        if len(found) != 1:
            return None
        handle, function = found[0]
        calls = [*_handle(handle, function, frame.line)]
        if calls:
            return (calls[0], frame) if len(calls) == 1 else None
        passed = _parameter(handle, function)
        if passed is None:
            return None
    return None


def _calls_at(tree: ast.Module, line: int) -> Iterator[tuple[ast.Call, _Function]]:
    """The calls that begin at this line, each with the innermost function around it."""
    for function in (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)):
        nested = {part for inner in ast.walk(function) if inner is not function and isinstance(inner, _FUNCTIONS)
                  for part in ast.walk(inner)}  # fmt: skip
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node.lineno == line and node not in nested:
                yield node, function


def _waited(tree: ast.Module, frame: Frame) -> Iterator[tuple[ast.expr, _Function]]:
    """The handles on which the line calls `wait`."""
    for call, function in _calls_at(tree, frame.line):
        match call.func:
            case ast.Attribute(value=handle, attr="wait"):
                yield handle, function


def _passed(tree: ast.Module, frame: Frame, parameter: _Parameter) -> Iterator[tuple[ast.expr, _Function]]:
    """What the line gives for this parameter of the function that it calls."""
    for call, function in _calls_at(tree, frame.line):
        match call.func:
            case ast.Attribute(attr=called):
                place = parameter.place - parameter.bound
            case ast.Name(id=called):
                place = parameter.place
            case _:
                continue
        if called == parameter.function and not any(isinstance(argument, ast.Starred) for argument in call.args):
            yield from (
                (given, function)
                for given in (
                    *(keyword.value for keyword in call.keywords if keyword.arg == parameter.name),
                    *call.args[place : place + 1],
                )
            )


def _parameter(handle: ast.expr, function: _Function) -> _Parameter | None:
    """The parameter of the function that the handle is; None where it is none, or the function assigns it."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if not isinstance(handle, ast.Name) or handle.id not in names or handle.id in stored_in(function.body):
        return None
    bound = names[0] in {"self", "cls"}
    return _Parameter(function=function.name, name=handle.id, place=names.index(handle.id), bound=bound)


def _handle(handle: ast.expr, function: _Function, line: int) -> Iterator[ast.Call]:
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
