"""What a loop gives to its variable, and the data loader that it goes over."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.lengths import UNEVEN, is_drawn, of_items
from ddpdoctor.source.dataflow.origins import At, Origins, constant, joined
from ddpdoctor.source.dataflow.returned_values import returned
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import items_of, of_any_key
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.classes import class_named
from ddpdoctor.source.syntax.scopes import Scope


def item_of(values: Values, node: ast.expr, index: tuple[int, ...], at: At) -> Origins:
    """What a loop over an expression gives to the target at `index`."""
    if isinstance(node, ast.Call):
        name = dotted(node.func).rpartition(".")[2]
        if name == "range":
            return ()
        if name == "enumerate" and node.args:
            return () if index[:1] == (0,) else item_of(values, node.args[0], index[1:], at)
        if name == "zip" and index:
            given = node.args[index[0]] if 0 <= index[0] < len(node.args) else None
            return item_of(values, given, index[1:], at) if given is not None else ()
        if name == "items" and isinstance(node.func, ast.Attribute):
            table = node.func.value
            if index == (0,) and (written := items_of(values, table, at)):
                return joined(origin for key in written for origin in constant(key))
            held = of_any_key(values, table, at) if index == (1,) else ()
            return joined([*_local(values.of(table, at)), *held])
    if isinstance(node, ast.Tuple | ast.List):
        return joined(origin for part in node.elts for origin in values.of(part, at))
    loader = loader_in(values, node, at)
    if loader is not None:
        made = replace(loader, kind=Kind.LOCAL, text=values.text(node, at.scope), note="batch")
        return (made,)
    over = values.of(node, at)
    if not index and (objects := values.objects_in(node, at)):
        return objects
    own = (*of_items(over), *(one for one in over if is_drawn(one)))
    found = own + tuple(one for one in _local(over) if one.note not in {"progress", "part", "even"})
    if found or not isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return found
    return (Origin(kind=Kind.LOCAL, text=values.text(node, at.scope), made=values.where(node, at.scope), note="item"),)


def loader_in(values: Values, node: ast.expr, at: At) -> Origin | None:
    """The data loader that a loop goes over, also through `enumerate`, `tqdm` and other functions that pass it on."""
    objects = values.of(node, at)
    for origin in objects:
        if origin.kind is Kind.LOADER:
            return origin
    for origin in objects:
        if origin.kind is Kind.INSTANCE and (loader := _behind(values, origin)) is not None:
            return loader
    if isinstance(node, ast.Call):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for each in given[:4]:
            if (
                isinstance(each, ast.Name | ast.Attribute | ast.Call)
                and (found := loader_in(values, each, at)) is not None
            ):
                return found
    return None


def _behind(values: Values, own: Origin) -> Origin | None:
    """The data loader whose batches an object of the program hands on when a loop goes over it: a prefetcher."""
    cls = class_named(values.project, own.note)
    method = values.project.method(cls, "__iter__") if cls is not None else None
    if cls is None or method is None:
        return None
    single = values.objects.find(cls, own.made)
    turns = values.of_object(
        single,
        lambda: tuple(of_turns(values, method)) if method.generator else returned(values, method, None, single),
    )
    return next((one for one in turns if one.kind is Kind.LOADER), None)


def of_turns(values: Values, generator: Scope) -> Iterable[Origin]:
    """What the loops of a generator go over that yield: a data loader, or the rank's part of a list, by which it ends."""
    for loop in generator.loops:
        if isinstance(loop.node, ast.While) or not any(block.inside(loop.body) for block in generator.yielding):
            continue
        for origin in values.of(loop.node.iter, At(generator, loop.order, loop.block)):
            if origin.kind is Kind.LOADER or origin.note in UNEVEN:
                yield replace(origin, note="part") if origin.note == "length" else origin


def _local(found: Origins) -> Origins:
    kinds = {Kind.LOCAL, Kind.SHARED, Kind.OBJECT}
    return tuple(origin for origin in found if origin.kind in kinds or origin.note == "modules")
