"""The names in a source file that hold the rank of the process, or what follows from it alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from ddpdoctor.evidence.code_values import RANK_KINDS
from ddpdoctor.source.names.rank_names import ENVIRONMENT, RANK_CALLS

_VARIABLES = frozenset(name for name, kind in ENVIRONMENT.items() if kind in RANK_KINDS)
_OF_FRAMEWORKS = frozenset({"process_index", "local_process_index", "global_rank", "world_rank"})
_FIRST_RANK = frozenset(
    {"is_main_process", "is_local_main_process", "is_world_process_zero", "is_local_process_zero", "is_global_zero"}
)
_RANK_IN_A_PAIR = {"get_dist_info": 0, "get_world_size_and_rank": 1}  # of mmcv and mmengine, of torchtune
_ASKS_FOR_THE_RANK = ast.parse("get_rank()", mode="eval").body
_MOST_STEPS = 8  # from a test through names to the rank
_LOOK_UPS = re.compile(r"(?:^|\.)(?:environ\.get|getenv)$")


def names_of_the_rank(tree: ast.Module) -> Mapping[str, ast.expr | None]:
    """`r` of `r = dist.get_rank()`, `self.gpu` of `self.gpu = int(os.environ["LOCAL_RANK"])`, `first` of `first = r == 0`.

    And functions and properties of the file whose one `return` gives the rank, or a test of it alone, and the first parameter of
    the function that `mp.spawn` starts. No name that holds something else in another place. Each with its value, where it is
    given one in one place.
    """
    spawned = {*_spawned(tree)}
    known = {*spawned}
    tuples = {name: value.elts for name, value in _returned(tree).items() if isinstance(value, ast.Tuple)}
    assigned = [(ast.unparse(target), value) for node in ast.walk(tree) for target, value in _assigned(node, tuples)]
    assigned += [(name, value) for name, value in _returned(tree).items() if not isinstance(value, ast.Tuple)]
    while found := {name for name, value in assigned if _is_rank(value, known)} - known:
        known |= found
    other = {name for name, value in assigned if not _is_rank(value, known)}
    loops = {ast.unparse(node.target) for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)}
    values: dict[str, list[ast.expr]] = {name: [_ASKS_FOR_THE_RANK] for name in spawned}
    for name, value in assigned:
        values.setdefault(name, []).append(value)
    return {name: given[0] if len(given := values[name]) == 1 else None for name in sorted(known - other - loops)}


def selected_ranks(test: ast.expr, names: Mapping[str, ast.expr | None]) -> str:
    """`rank == 0` of a test that asks no more, whatever `names` stand for it: `self.main`, `not first()`; else empty."""
    negated, at = False, test
    for _ in range(_MOST_STEPS):
        match at:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated, at = not negated, operand
            case ast.Compare(
                left=left, ops=[ast.Eq() | ast.NotEq() as how], comparators=[ast.Constant(value=int(rank))]
            ):
                same = isinstance(how, ast.Eq) is not negated
                return f"rank {'==' if same else '!='} {rank}" if _is_the_rank_itself(left, names) else ""
            case _ if (value := _value_of(at, names)) is not None:
                at = value
            case _:
                break
    return ""


def _is_the_rank_itself(node: ast.expr, names: Mapping[str, ast.expr | None]) -> bool:
    for _ in range(_MOST_STEPS):
        match node:
            case ast.Call(func=ast.Name(id="int"), args=[inner]) | ast.IfExp(body=inner, orelse=ast.Constant()):
                node = inner
            case _ if (value := _value_of(node, names)) is not None:
                node = value
            case _:
                break
    if isinstance(node, ast.Call) and (node.args or node.keywords) and not _LOOK_UPS.search(ast.unparse(node.func)):
        return False  # a rank in a group: `dist.get_rank(group)`
    return isinstance(node, ast.Call | ast.Subscript) and _is_rank(node, set())


def _value_of(node: ast.expr, names: Mapping[str, ast.expr | None]) -> ast.expr | None:
    """The value of a name, or of a call without arguments."""
    called = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else node
    return names.get(ast.unparse(called)) if isinstance(called, ast.Name | ast.Attribute) else None


def tells_the_rank(test: ast.expr, names: Collection[str]) -> bool:
    """Whether one of `names` stands in `test`."""
    parts = (node for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute))
    return any(ast.unparse(part) in names for part in parts)


def values_by_rank(statement: ast.stmt, names: Collection[str]) -> Iterator[tuple[ast.expr, bool]]:
    """The outermost arithmetic and conditional expressions in `statement` with the rank in them, and whether they compare it.

    `epochs - (rank == 1)` compares it, and `seed + rank` does not. A comparison alone is a switch, such as `disable=rank != 0`,
    and none of these.
    """
    pending = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp | ast.IfExp) and compares_the_rank(node, names):
            yield node, True
        elif isinstance(node, ast.BinOp) and _contains_the_rank(node, names):
            yield node, False
        else:
            inner = (child.value if isinstance(child, ast.keyword) else child for child in ast.iter_child_nodes(node))
            pending.extend(child for child in inner if isinstance(child, ast.expr))


def _contains_the_rank(expression: ast.expr, names: Collection[str]) -> bool:
    known = {*names}
    return any(isinstance(part, ast.expr) and _is_rank(part, known) for part in ast.walk(expression))


def compares_the_rank(expression: ast.expr, names: Collection[str]) -> bool:
    """Whether something in `expression` depends on which rank it is: `2 + (rank == 1)`, `9 if rank else 8`; `names` hold it."""
    known = {*names}
    return any(
        _asks_for_the_first(node)
        or (isinstance(node, ast.IfExp) and _is_rank(_without_not(node.test), known))
        or (isinstance(node, ast.Compare) and any(_is_rank(side, known) for side in (node.left, *node.comparators)))
        for node in ast.walk(expression)
    )


def _without_not(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test


def _asks_for_the_first(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _FIRST_RANK


def _returned(tree: ast.Module) -> dict[str, ast.expr]:
    """By function of the file, what it returns, where it has one `return`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            match [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]:
                case [ast.expr() as value]:
                    found[node.name] = value
                    if node.args.args and node.args.args[0].arg == "self":
                        found[f"self.{node.name}"] = value
    return found


def _assigned(node: ast.AST, tuples: Mapping[str, list[ast.expr]]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target with its value; of `r, w = get_rank(), get_world_size()`, or of a function that returns these, its own."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=function) as value):
            name = ast.unparse(function).rpartition(".")[2]
            values = tuples.get(name, [])
            if len(values) == len(targets):
                yield from zip(targets, values, strict=True)
            elif name in _RANK_IN_A_PAIR and len(targets) == 2:
                yield targets[_RANK_IN_A_PAIR[name]], _ASKS_FOR_THE_RANK
            else:
                yield node.targets[0], value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            yield from zip(targets, values, strict=True)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield target, value


def _spawned(tree: ast.Module) -> Iterator[str]:
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="spawn"), args=[ast.Name(id=name), *_]) if name in functions:
                yield from (parameter.arg for parameter in functions[name].args.args[:1])


def _is_rank(value: ast.expr, known: set[str]) -> bool:
    """Whether it is the rank by what the file assigns, or by the name that frameworks give it: `args.process_index`."""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _is_rank(inner, known)
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
            return bool(_LOOK_UPS.search(ast.unparse(function))) and name in _VARIABLES
        case ast.Call(func=function):
            return ast.unparse(function).rpartition(".")[2] in RANK_CALLS or ast.unparse(function) in known
        case ast.Subscript(value=mapping, slice=ast.Constant(value=str(name))):
            return ast.unparse(mapping).endswith("environ") and name in _VARIABLES
        case ast.Attribute(attr=name) if name in _OF_FRAMEWORKS:
            return True
        case ast.Name() | ast.Attribute():
            return ast.unparse(value) in known
        case ast.IfExp(body=body, orelse=orelse):
            return _is_rank(body, known) or _is_rank(orelse, known)
        case ast.Compare(left=left, comparators=others):
            return _of_the_rank_alone([left, *others], known)
        case ast.BinOp(left=left, right=right):
            return _of_the_rank_alone([left, right], known)
        case ast.BoolOp(values=parts):
            return _of_the_rank_alone(parts, known)
        case ast.UnaryOp(operand=operand):
            return _is_rank(operand, known)
    return False


def _of_the_rank_alone(parts: list[ast.expr], known: set[str]) -> bool:
    own = [_is_rank(part, known) for part in parts]
    return any(own) and all(is_rank or isinstance(part, ast.Constant) for part, is_rank in zip(parts, own, strict=True))
