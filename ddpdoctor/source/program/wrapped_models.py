"""Which calls make the models that DDP or FSDP wraps: also of functions and classes that are imported from elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.syntax.scopes import Scope

MOST_STEPS = 8
_WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", ".fully_shard")
_SAME_MODEL = frozenset({"to", "cuda", "train", "eval", "half", "float", "bfloat16", "requires_grad_", "to_empty"})
_ROUND_IT = frozenset({"convert_sync_batchnorm", "compile", "DataParallel", "convert_syncbn_model"})


def makers_of_models(index: Index, scopes: Iterable[Scope]) -> frozenset[int]:
    """The identities of the calls, as nodes, whose results are wrapped in DDP or FSDP."""
    scopes = tuple(scopes)
    found: set[int] = set()
    for scope in scopes:
        for call in scope.calls:
            if type(call.meant) is str and call.meant.endswith(_WRAPPERS):
                given = [one.value for one in call.node.keywords if one.arg == "module"]
                for model in (*call.node.args[:1], *given):
                    found.update(_makers(index, model, scope, MOST_STEPS))
    return frozenset(found) | _made_alike(scopes, found)


def _made_alike(scopes: Iterable[Scope], found: set[int]) -> frozenset[int]:
    """The calls in the same files that are written like one of those that were found: `build_model(config)` elsewhere."""
    if not found:
        return frozenset()
    calls = [(scope.file, call) for scope in scopes for call in scope.calls]
    makers = [(file, call) for file, call in calls if id(call.node) in found]
    names = {call.name for _, call in makers} - {""}
    others = [(file, call.node) for file, call in calls if call.name in names and id(call.node) not in found]
    written = {(file, ast.unparse(call.node)) for file, call in makers} if others else ()
    return frozenset(id(node) for file, node in others if (file, ast.unparse(node)) in written)


def makers_of_data(index: Index, scopes: Iterable[Scope]) -> frozenset[int]:
    """The identities of the calls of classes from elsewhere whose objects a DataLoader draws from in a random order.

    Such an object has a length and is read by index, whatever its class: torch shuffles no other.
    """
    found: set[int] = set()
    for scope in scopes:
        for call in scope.calls:
            if type(call.meant) is str and call.meant.endswith("DataLoader") and _draws(call.node):
                given = [one.value for one in call.node.keywords if one.arg == "dataset"]
                for data in (*call.node.args[:1], *given):
                    found.update(_makers(index, data, scope, MOST_STEPS))
    return frozenset(found)


def _draws(loader: ast.Call) -> bool:
    """Whether a loader has an order of its own that only data with a length can have."""
    for one in loader.keywords:
        if one.arg == "shuffle" and isinstance(one.value, ast.Constant) and one.value.value is True:
            return True
        if one.arg == "sampler" and not (isinstance(one.value, ast.Constant) and one.value.value is None):
            return True
    return False


def _makers(index: Index, node: ast.expr, scope: Scope, steps: int) -> Iterator[int]:
    if not steps:
        return
    if isinstance(node, ast.Call):
        last = dotted(node.func).rpartition(".")[2]
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODEL:
            yield from _makers(index, node.func.value, scope, steps - 1)
        elif last in _ROUND_IT and node.args:
            yield from _makers(index, node.args[0], scope, steps - 1)
        else:
            yield from _called(index, node, scope, steps)
        return
    for value, inner in _given(index, dotted(node), scope):
        yield from _makers(index, value, inner, steps - 1)


def _called(index: Index, node: ast.Call, scope: Scope, steps: int) -> Iterator[int]:
    meant = index.project.resolve(scope, dotted(node.func)) if dotted(node.func) else ""
    if isinstance(meant, str):
        yield id(node)
    elif isinstance(meant, Scope) and not meant.is_class:
        for value, _, _ in meant.returns:
            yield from _makers(index, value, meant, steps - 1)


def _given(index: Index, name: str, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """What a name, a parameter or an attribute of the class is given, in whatever order."""
    owner, _, attribute = name.rpartition(".")
    cls = scope.of_class
    if owner == "self" and cls is not None:
        for inner, definition, _ in index.attributes.get((id(cls), attribute), ()):
            if definition.form == "assign" and definition.value is not None and not definition.index:
                yield definition.value, inner
        return
    at: Scope | None = scope
    while at is not None and name and not owner:
        for definition in at.definitions.get(name, ()):
            if definition.form == "assign" and definition.value is not None and not definition.index:
                yield definition.value, at
        if name in at.parameters:
            position = at.parameters.index(name)
            for site in index.sites.get(id(at), ()):
                by_name = dict(site.keywords)
                if name in by_name:
                    yield by_name[name], site.caller
                elif 0 <= position - site.first < len(site.arguments):
                    yield site.arguments[position - site.first], site.caller
            return
        at = at.parent
