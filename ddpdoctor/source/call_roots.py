"""The root that a collective is given at one line of the user's source, as an expression over whole numbers."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.host.owned_files import read_source
from ddpdoctor.source.group_arguments import last_name, passes_a_group
from ddpdoctor.source.rank_dataflow import names_of_the_rank
from ddpdoctor.source.walk import dotted

MAX_SOURCE_BYTES = 4 << 20
# the arguments that name the root, and the place of the first of them
ROOT_ARGUMENTS: Mapping[str, tuple[tuple[str, str], int]] = {
    "broadcast": (("src", "group_src"), 1),
    "broadcast_object_list": (("src", "group_src"), 1),
    "reduce": (("dst", "group_dst"), 1),
    "gather": (("dst", "group_dst"), 2),
    "scatter": (("src", "group_src"), 2),
}
_MODULES = ("", "dist", "distributed", "torch.distributed")
_MOST_NODES = 50  # of an expression for a root
_NAMED_AS_THE_RANK = frozenset({"rank", "global_rank", "world_rank", "local_rank"})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RootArgument:
    """The expression for the root of a call in the default group: of constants, names and the rank."""

    expression: ast.expr
    """As parsed."""
    names: frozenset[str]
    """The variables in it."""
    ranks: frozenset[str]
    """Those of them that hold the rank, by their name or by what the file assigns to them."""
    varies: bool
    """Whether every turn of a loop around the call may give another root."""

    def value(self, numbers: Mapping[str, int], rank: int) -> int | None:
        """The root on this rank, whose variables have these values; None where these do not tell."""
        return _value(self.expression, numbers, rank)


def root_argument(file: str, line: int, op: str, owner: int | None = None) -> RootArgument | None:
    """The root that the only call of `op` at this line is given.

    None where there is not one such call, where it may be one of another group than the default one, where it gives no root, and
    where the root may follow from anything but constants, variables and the rank.
    """
    try:
        text = read_source(Path(file), owner, most=MAX_SOURCE_BYTES)
        tree = ast.parse(text) if text is not None else None
        ranks = names_of_the_rank(tree) if tree is not None else frozenset()
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    calls = [found for found in _calls(tree, line) if last_name(found[0]) == op] if tree is not None else []
    if tree is None or len(calls) != 1 or op not in ROOT_ARGUMENTS:
        return None
    (call, loops), (names, index) = calls[0], ROOT_ARGUMENTS[op]
    if passes_a_group(call) or dotted(call.func) not in _of_torch(op):
        return None
    given = next((one.value for one in call.keywords if one.arg in names), None)
    if given is None:
        given = call.args[index] if len(call.args) > index else None
    found = _names(given) if given is not None else None
    if given is None or found is None:
        return None
    ranks |= _NAMED_AS_THE_RANK - _stored([tree])
    return RootArgument(expression=given, names=found, ranks=found & ranks, varies=not found.isdisjoint(_stored(loops)))


def _of_torch(function: str) -> list[str]:
    return [f"{module}.{function}".lstrip(".") for module in _MODULES]


def _stored(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The variables that statements below these nodes assign."""
    below = (part for node in nodes for part in ast.walk(node))
    return frozenset(part.id for part in below if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _names(expression: ast.expr) -> frozenset[str] | None:
    """The variables that decide an expression; None where something else may, or where it is too large."""
    if len([*itertools.islice(ast.walk(expression), _MOST_NODES + 1)]) > _MOST_NODES:
        return None
    names: set[str] = set()
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        match node:
            case ast.Name(id=name):
                names.add(name)
            case ast.Call() if _asks_for_the_rank(node):
                pass
            case ast.Constant() | ast.IfExp() | ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.BoolOp():
                pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            case _:
                return None
    return frozenset(names)


def _asks_for_the_rank(call: ast.Call) -> bool:
    """Whether it asks for the rank in the default group."""
    return not call.args and not call.keywords and dotted(call.func) in _of_torch("get_rank")


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


def _value(node: ast.expr, numbers: Mapping[str, int], rank: int) -> int | None:
    """The value of an expression of whole numbers; None of every other one."""
    match node:
        case ast.Constant(value=int() as value) if abs(value) < _LARGEST:
            return int(value)
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.Call() if _asks_for_the_rank(node):
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
