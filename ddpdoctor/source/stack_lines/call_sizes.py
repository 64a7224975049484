"""The size of the tensor that a collective is given at one line of the user's source, by the call that makes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.stack_lines.call_expressions import CallOfTorch, call_of_torch, names_in, stored_in, value_of

# the name of the tensor that has the same size on every rank, and its place
SIZED_ARGUMENTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "all_reduce": (("tensor",), 0),
    "broadcast": (("tensor",), 0),
    "reduce": (("tensor",), 0),
    "all_gather_into_tensor": (("input_tensor",), 1),
}
_MAKERS = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn"))
_FILLED = frozenset({"torch.full"})
_KEEP_THE_SIZE = frozenset(
    {"to", "cuda", "cpu", "float", "double", "half", "long", "int", "clone", "detach", "contiguous"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeArgument:
    """The expressions for the size of the tensor, one per dimension."""

    expressions: tuple[ast.expr, ...]
    """As parsed."""
    names: frozenset[str]
    """The variables in them."""
    ranks: frozenset[str]
    """Those of them that hold the rank, by their name or by what the file assigns to them."""
    varies: bool
    """Whether every turn of a loop around the call may give another size."""

    def value(self, numbers: Mapping[str, int], rank: int) -> tuple[int, ...] | None:
        """The size on this rank, whose variables have these values; None where these do not tell."""
        sizes = [value_of(one, numbers, rank) for one in self.expressions]
        known = tuple(size for size in sizes if size is not None and size >= 0)
        return known if len(known) == len(sizes) else None


def size_argument(file: str, line: int, op: str, owner: int | None = None) -> SizeArgument | None:
    """The size of the tensor that the only call of `op` at this line is given.

    None where the tensor is not made by one call such as `torch.zeros(n)` in this function, on every way to the line, or where
    its size may follow from anything but constants, the rank and variables that have not changed since.
    """
    found = call_of_torch(file, line, op, owner) if op in SIZED_ARGUMENTS else None
    given = found.argument(*SIZED_ARGUMENTS[op]) if found is not None else None
    if found is None or given is None:
        return None
    made = given if isinstance(given, ast.Call) else _made(given, found)
    sizes = _sizes(made) if made is not None else None
    parts = [names_in(one) for one in sizes] if sizes is not None else []
    names = frozenset[str]().union(*(one for one in parts if one is not None))
    if made is None or not sizes or None in parts or found.changes(names, made.lineno):
        return None
    varies = not names.isdisjoint(stored_in(found.loops))
    return SizeArgument(expressions=tuple(sizes), names=names, ranks=names & found.ranks, varies=varies)


def _made(given: ast.expr, found: CallOfTorch) -> ast.expr | None:
    """What the last statement in front of the call that assigns this variable gives it, on every way to the call."""
    function = found.function
    if not isinstance(given, ast.Name) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    stored = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == given.id and not isinstance(node.ctx, ast.Load)
    ]
    for statement in reversed([*_before(function.body, found.call)]):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == given.id:
                behind = [line for line in stored if statement.lineno < line <= found.call.lineno]
                return None if behind else value
    return None


def _before(body: Sequence[ast.stmt], call: ast.Call) -> Iterator[ast.stmt]:
    """The statements that every way to the call passes, since the head of the innermost loop around it."""
    passed: list[ast.stmt] = []
    for statement in body:
        if call in ast.walk(statement):
            inner = [block for block in _blocks(statement) if any(call in ast.walk(one) for one in block)]
            looped = isinstance(statement, ast.For | ast.AsyncFor | ast.While)
            yield from () if looped and inner else passed
            yield from _before(inner[0], call) if inner else ()
            return
        passed.append(statement)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block


def _sizes(made: ast.expr) -> Sequence[ast.expr] | None:
    """The expressions of the dimensions of a tensor that is made here, also by `torch.zeros(n).to(device)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _KEEP_THE_SIZE:
        made = made.func.value
    if not isinstance(made, ast.Call) or dotted(made.func) not in _MAKERS | _FILLED:
        return None
    given = next((one.value for one in made.keywords if one.arg == "size"), None)
    hidden = any(one.arg is None for one in made.keywords)
    sizes = [given] if given is not None else made.args[:1] if dotted(made.func) in _FILLED else made.args
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        sizes = sizes[0].elts
    return None if hidden or any(isinstance(one, ast.Starred) for one in sizes) else sizes
