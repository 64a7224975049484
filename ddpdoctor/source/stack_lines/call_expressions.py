"""One call of torch.distributed in the user's source, and what expressions over whole numbers give there on each rank."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.stack_lines.group_arguments import last_name, passes_a_group
from ddpdoctor.source.stack_lines.rank_dataflow import names_of_the_rank
from ddpdoctor.source.stack_lines.source_files import source_tree

_MODULES = ("", "dist", "distributed", "torch.distributed")
_MOST_NODES = 50  # of an expression
_NAMED_AS_THE_RANK = frozenset({"rank", "global_rank", "world_rank", "local_rank"})
_LARGEST = 1 << 31
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
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
class CallOfTorch:
    """The only call of one function of torch.distributed at a line, in the default group."""

    call: ast.Call
    """As parsed."""
    within: tuple[ast.AST, ...]
    """The functions and loops around it, outermost first."""
    ranks: frozenset[str]
    """The variables that hold the rank, by their name or by what the file assigns to them."""

    @property
    def loops(self) -> list[ast.AST]:
        """The loops around it in its function."""
        within = itertools.takewhile(lambda node: not isinstance(node, _FUNCTIONS), reversed(self.within))
        return [*within][::-1]

    @property
    def function(self) -> ast.AST | None:
        """The function that it stands in."""
        return next((node for node in reversed(self.within) if isinstance(node, _FUNCTIONS)), None)

    def changes(self, names: Collection[str], line: int) -> bool:
        """Whether the function assigns one of these variables at this line or behind it, or is none."""
        within = self.function
        return within is None or any(
            isinstance(node, ast.Name)
            and node.id in names
            and not isinstance(node.ctx, ast.Load)
            and node.lineno >= line
            for node in ast.walk(within)
        )

    def argument(self, names: Collection[str], index: int) -> ast.expr | None:
        """What it is given by one of these names, or else at this place."""
        given = next((one.value for one in self.call.keywords if one.arg is not None and one.arg in names), None)
        return given or (self.call.args[index] if len(self.call.args) > index else None)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def call_of_torch(file: str, line: int, op: str, owner: int | None) -> CallOfTorch | None:
    """The only call of `op` at this line; None where there is not one such call, or where it may be one of another group."""
    tree = source_tree(file, owner)
    if tree is None:
        return None
    try:
        ranks = frozenset(names_of_the_rank(tree)) | (_NAMED_AS_THE_RANK - stored_in([tree]))
    except RecursionError:
        return None
    calls = [found for found in _calls(tree, line) if last_name(found[0]) == op]
    if len(calls) != 1 or passes_a_group(calls[0][0]) or dotted(calls[0][0].func) not in _of_torch(op):
        return None
    return CallOfTorch(call=calls[0][0], within=calls[0][1], ranks=ranks)


def stored_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The variables that statements below these nodes assign."""
    below = (part for node in nodes for part in ast.walk(node))
    return frozenset(part.id for part in below if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def names_in(expression: ast.expr) -> frozenset[str] | None:
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


def value_of(node: ast.expr, numbers: Mapping[str, int], rank: int) -> int | None:
    """The value of an expression of whole numbers; None of every other one."""
    match node:
        case ast.Constant(value=int() as value) if abs(value) < _LARGEST:
            return int(value)
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.Call() if _asks_for_the_rank(node):
            return rank
        case ast.IfExp(test=test, body=body, orelse=other):
            decided = value_of(test, numbers, rank)
            return None if decided is None else value_of(body if decided else other, numbers, rank)
        case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in _COMPARISONS:
            one, two = value_of(left, numbers, rank), value_of(right, numbers, rank)
            return None if one is None or two is None else int(_COMPARISONS[type(compared)](one, two))
        case ast.BinOp(left=left, op=how, right=right) if type(how) in _OPERATORS:
            one, two = value_of(left, numbers, rank), value_of(right, numbers, rank)
            divides = isinstance(how, ast.FloorDiv | ast.Mod)
            if one is None or two is None or (divides and not two) or max(abs(one), abs(two)) >= _LARGEST:
                return None
            return _OPERATORS[type(how)](one, two)
        case _:
            return None


def _of_torch(function: str) -> list[str]:
    return [f"{module}.{function}".lstrip(".") for module in _MODULES]


def _asks_for_the_rank(call: ast.Call) -> bool:
    """Whether it asks for the rank in the default group."""
    return not call.args and not call.keywords and dotted(call.func) in _of_torch("get_rank")


def _calls(tree: ast.AST, line: int) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    """The calls at a line, with the functions and loops around each."""
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while pending:
        node, within = pending.pop()
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node, within
        if isinstance(node, (*_FUNCTIONS, ast.For, ast.AsyncFor, ast.While)):
            within = (*within, node)
        pending += [(child, within) for child in ast.iter_child_nodes(node)]
