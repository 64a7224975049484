"""The root that a collective is given at one line of the user's source, as an expression over whole numbers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.host.owned_files import read_source

MAX_SOURCE_BYTES = 4 << 20
# the arguments that name the root, and the place of the first of them
ROOT_ARGUMENTS: Mapping[str, tuple[tuple[str, str], int]] = {
    "broadcast": (("src", "group_src"), 1),
    "broadcast_object_list": (("src", "group_src"), 1),
    "reduce": (("dst", "group_dst"), 1),
    "gather": (("dst", "group_dst"), 2),
    "scatter": (("src", "group_src"), 2),
}
_ASKS_FOR_THE_RANK = ("get_rank", "dist.get_rank", "torch.distributed.get_rank")
_LARGEST = 1 << 31
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class RootArgument:
    """The expression for the root, and whether every turn of a loop around the call may give another one."""

    expression: ast.expr
    varies: bool

    @property
    def names(self) -> set[str]:
        """The variables in it."""
        return {node.id for node in ast.walk(self.expression) if isinstance(node, ast.Name)}

    def value(self, numbers: Mapping[str, int], rank: int) -> int | None:
        """The root on this rank, whose variables have these values; None where these do not tell."""
        return _value(self.expression, numbers, rank)


def root_argument(file: str, line: int, op: str, owner: int | None = None) -> RootArgument | None:
    """The root that the only call of `op` at this line is given; None where there is not one such call, or it gives no root."""
    try:
        text = read_source(Path(file), owner, most=MAX_SOURCE_BYTES)
        tree = ast.parse(text) if text is not None else None
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    calls = [found for found in _calls(tree, line) if _last_name(found[0]) == op] if tree is not None else []
    if len(calls) != 1 or op not in ROOT_ARGUMENTS:
        return None
    (call, loops), (names, index) = calls[0], ROOT_ARGUMENTS[op]
    given = next((one.value for one in call.keywords if one.arg in names), None)
    if given is None:
        given = call.args[index] if len(call.args) > index else None
    if given is None:
        return None
    stored = {
        node.id
        for loop in loops
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    found = RootArgument(given, varies=False)
    return RootArgument(given, varies=not found.names.isdisjoint(stored))


def _calls(tree: ast.AST, line: int) -> Iterator[tuple[ast.Call, tuple[ast.stmt, ...]]]:
    """The calls at a line, with the loops around each in its function."""
    pending: list[tuple[ast.AST, tuple[ast.stmt, ...]]] = [(tree, ())]
    while pending:
        node, loops = pending.pop()
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node, loops
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            loops = ()
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            loops = (*loops, node)
        pending += [(child, loops) for child in ast.iter_child_nodes(node)]


def _last_name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _value(node: ast.expr, numbers: Mapping[str, int], rank: int) -> int | None:
    """The value of an expression of whole numbers; None of every other one."""
    match node:
        case ast.Constant(value=int() as value) if abs(value) < _LARGEST:
            return int(value)
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.Call(func=function, args=[]) if ast.unparse(function) in _ASKS_FOR_THE_RANK:
            return rank
        case ast.IfExp(test=test, body=body, orelse=other):
            decided = _value(test, numbers, rank)
            return None if decided is None else _value(body if decided else other, numbers, rank)
        case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in _COMPARISONS:
            one, two = _value(left, numbers, rank), _value(right, numbers, rank)
            return None if one is None or two is None else int(_COMPARISONS[type(compared)](one, two))
        case ast.BinOp(left=left, op=how, right=right) if type(how) in _OPERATORS:
            one, two = _value(left, numbers, rank), _value(right, numbers, rank)
            divides = isinstance(how, ast.FloorDiv | ast.Mod)
            return None if one is None or two is None or (divides and not two) else _OPERATORS[type(how)](one, two)
        case _:
            return None
