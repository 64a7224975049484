"""Calls that set up a training: models that are sharded, samplers that are told their epoch, communication hooks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ddpdoctor.evidence.value_chains import CodeLine, EpochCall, ShardedModel
from ddpdoctor.source.chains.backwards import Backwards
from ddpdoctor.source.chains.causes import Search
from ddpdoctor.source.chains.lines import code_line
from ddpdoctor.source.chains.points import Point
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope

_SHARDS = ("fully_shard", "FullyShardedDataParallel", "FSDP")
_SIZES = frozenset(
    {"get_world_size", "world_size", "size", "world", "num_processes", "nprocs", "num_ranks", "WORLD_SIZE"}
)
"""Names of what gives or holds the number of ranks."""
_SCALES = frozenset({"div_", "mul_", "div", "mul", "true_divide"})
_MOST_FUNCTIONS = 20


def epoch_calls(back: Backwards, scopes: Sequence[Scope]) -> Iterator[EpochCall]:
    """The calls of `set_epoch`, but for those in methods of that name."""
    for scope in scopes:
        for call in scope.calls if scope.name != "set_epoch" else ():
            if call.method != "set_epoch":
                continue
            tests = [block for block in call.block.chain() if block.test is not None]
            test = tests[-1].test if tests else None
            yield EpochCall(
                at=code_line(back.index, scope, call.node),
                test=code_line(back.index, scope, test) if test is not None else None,
            )


def sharded_models(back: Backwards, scopes: Sequence[Scope]) -> tuple[ShardedModel, ...]:
    """Where the models are made that are sharded as a whole, not layer by layer in a loop."""
    found: dict[tuple[str, int], ShardedModel] = {}
    for scope in scopes:
        for call in scope.calls:
            if call.last not in _SHARDS or not call.node.args or scope.loops_around(call.block):
                continue
            model = Point(call.node.args[0], scope, call.order, call.block)
            made = Search(back).origin(model)
            if made is not None and isinstance(made.node, ast.Call):
                line = code_line(back.index, made.scope, made.node)
                seeds = [*_seeds_before(back, made)]
                found[line.file, line.line] = ShardedModel(made=line, seed=seeds[-1] if len(seeds) == 1 else None)
    return tuple(found.values())


def _seeds_before(back: Backwards, made: Point) -> Iterator[CodeLine]:
    """The calls of `torch.manual_seed` with a seed of the rank, before a model is made, in its function or one call below."""
    for call in made.scope.calls:
        if call.order >= made.order or not made.block.inside(call.block):
            continue
        inner = [(call.target, one) for one in call.target.calls] if call.target is not None else []
        for scope, one in [(made.scope, call), *inner]:
            given = [Point(value, scope, one.order, one.block) for value in one.node.args]
            if one.meant in {"torch.manual_seed", "torch.random.manual_seed"} and Search(back).depends(given):
                yield code_line(back.index, scope, one.node)


def scales_of_hook(back: Backwards, hook: Point) -> tuple[Scope, list[tuple[Scope, ast.expr]]] | None:
    """The function that a communication hook is, and where it scales gradients by something else than the number of ranks."""
    function = back.index.project.resolve(hook.scope, dotted(hook.node)) if dotted(hook.node) else None
    if not isinstance(function, Scope) or function.is_class:
        return None
    reached, pending = [function], [function]
    while pending and len(reached) < _MOST_FUNCTIONS:
        at = pending.pop()
        inner = [*at.functions.values(), *(call.target for call in at.calls if call.target is not None)]
        for one in inner:
            if one not in reached:
                reached.append(one)
                pending.append(one)
    return function, [(scope, node) for scope in reached for node, by in _scalings(scope) if not _is_size(back, by)]


def _scalings(scope: Scope) -> Iterator[tuple[ast.expr, Point]]:
    """The operations that scale something, each with the factor."""
    for call in scope.calls:
        if call.method in _SCALES and call.node.args:
            yield call.node, Point(call.node.args[-1], scope, call.order, call.block)
    for statement in scope.statements:
        operation = statement.node.value if isinstance(statement.node, ast.Return | ast.Assign) else None
        if (
            isinstance(operation, ast.BinOp)
            and isinstance(operation.op, ast.Div | ast.Mult)
            and not isinstance(operation.left, ast.Constant)
        ):
            yield operation, Point(operation.right, scope, scope.last_order, statement.block)
        if isinstance(statement.node, ast.AugAssign) and isinstance(statement.node.op, ast.Div | ast.Mult):
            yield statement.node.value, Point(statement.node.value, scope, scope.last_order, statement.block)


def _is_size(back: Backwards, factor: Point) -> bool:
    """Whether the number of ranks is in a factor."""
    return any(map(_names_size, Search(back).reached(factor)))


def _names_size(node: ast.expr) -> bool:
    match node:
        case ast.Call():
            return (dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")) in _SIZES
        case ast.Constant(value=str(name)):
            return name in _SIZES
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _SIZES
    return False
