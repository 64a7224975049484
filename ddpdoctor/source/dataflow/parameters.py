"""What the callers of a function give for its parameters, and who they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ddpdoctor.evidence.code_values import OF_TRAINER, Kind, Link, Origin
from ddpdoctor.source.dataflow.attribute_access import is_trainer
from ddpdoctor.source.dataflow.origins import At, Origins, note_of, with_link
from ddpdoctor.source.dataflow.reaching_definitions import END
from ddpdoctor.source.dataflow.single_objects import may_be_of
from ddpdoctor.source.names import framework_names, rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calls_in_programs import MOST_SITES
from ddpdoctor.source.program.index import Site, given_at
from ddpdoctor.source.syntax.scopes import RawCall, Scope

if TYPE_CHECKING:
    from ddpdoctor.source.dataflow.values import Values
    from ddpdoctor.source.program.calling_contexts import CallingContext


_SIZES = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT})


def parameter_of(values: Values, scope: Scope, name: str) -> Origins:
    """What the callers of a function give for a parameter; the default where none is known."""
    context, single = values.context_in(scope), values.single_in(scope)
    return values.once((id(scope), name), lambda: _parameter(values, scope, name), context, single)


def _parameter(values: Values, scope: Scope, name: str) -> Origins:
    found = tuple(_from_sites(values, scope, name))
    if not found and _is_model_of_trainer(values, scope, name):
        return (Origin(kind=Kind.WRAPPED, text=name, note=OF_TRAINER),)
    if not found and name in rank_names.RANK_NAMES:
        return (Origin(kind=rank_names.RANK_NAMES[name], text=name, note=note_of(name)),)
    if any(one.kind in _SIZES for one in found) or not _is_size_of_the_job(scope, name):
        return found
    return (*found, Origin(kind=Kind.WORLD_SIZE, text=name))


def _is_model_of_trainer(values: Values, scope: Scope, name: str) -> bool:
    """Whether a parameter is the model that the Trainer of transformers gives to a method of a class below it: the wrapper."""
    cls = scope.of_class
    takes = scope.name in framework_names.STEPS_OF_TRAINERS and scope.parameters[1:2] == (name,)
    return takes and cls is not None and is_trainer(values, cls)


def _is_size_of_the_job(scope: Scope, name: str) -> bool:
    """Whether a function makes the process group with a parameter as its number of ranks."""
    return any(
        call.last == "init_process_group"
        and any(one.arg == "world_size" and dotted(one.value) == name for one in call.node.keywords)
        for call in scope.calls
    )


def _from_sites(values: Values, scope: Scope, name: str) -> Iterable[Origin]:
    sites, around = ways_into(values, scope)
    if not sites:
        default = scope.defaults.get(name)
        if default is not None and scope.parent is not None:
            yield from values.of(default, At(scope.parent, END, scope.parent.root))
    for site in sites if len(sites) <= MOST_SITES else ():
        yield from values.within(around, partial(_from_site, values, scope, name, site))


def _from_site(values: Values, scope: Scope, name: str, site: Site) -> Origins:
    """What one call gives for a parameter."""
    method = scope.parent is not None and scope.parent.is_class
    position = position_of(scope, name)
    if site.spawned and site.first and position < site.first:
        return (_spawned(values, name, site),)
    found = given_to(values, site, name, position)
    if found is None and _may_pass(values, site, position):
        kind = rank_names.RANK_NAMES.get(name, Kind.UNKNOWN)
        return (Origin(kind=kind, text=name, note=note_of(name) if name in rank_names.RANK_NAMES else ""),)
    if found is None:
        default = scope.defaults.get(name)
        if default is not None and scope.parent is not None:
            return values.of(default, At(scope.parent, END, scope.parent.root))
        return ()
    given, at = found
    if site.spawned == "Process" and _counted(given, at):
        return (_spawned(values, name, site),)
    if method and position == 0:
        return ()
    file, line = values.project.sources[site.caller.file].place(site.call.node.lineno)
    link = Link(text=f"{name} is given {values.text(given, site.caller)}", file=file, line=line)
    if (itself := _itself(values, given, at.scope)) is not None:
        return with_link([itself], link)
    origins = values.of(given, at)
    if site.spawned in _HANDS_OUT:
        origins = tuple(_of_parent(one) for one in origins)
    return with_link(origins, link)


_HANDS_OUT = frozenset({"spawn", "start_processes"})
"""Functions that give the same arguments to all processes that they start."""


def _of_parent(origin: Origin) -> Origin:
    """What all ranks get of a value that the process had which started them: its clock, its listing, its draw."""
    return replace(origin, kind=Kind.SHARED) if origin.kind is Kind.LOCAL else origin


def _itself(values: Values, given: ast.expr, scope: Scope) -> Origin | None:
    """The object that a method hands on as `self`: of a class of the program that no other is made from."""
    cls = scope.of_class
    if not isinstance(given, ast.Name) or given.id != "self" or cls is None or given.id in scope.definitions:
        return None
    if values.index.below.get(id(cls)) or values.project.is_a(cls, "Module", "LightningModule", "Dataset"):
        return None
    return Origin(kind=Kind.INSTANCE, text=cls.name, note=f"{cls.file}::{cls.name}")


def given_to(values: Values, site: Site, name: str, position: int) -> tuple[ast.expr, At] | None:
    """What a call gives for a parameter, also in a dict that it passes on: `make(data, **options)`; and where it is written."""
    from ddpdoctor.source.dataflow.written_dicts import items_of  # which asks for parameters itself

    at = At(site.caller, site.call.order, site.call.block)
    given = given_at(site, name, position)
    if given is not None:
        return given, at
    for each in site.call.node.keywords if not site.spawned else ():
        items = items_of(values, each.value, at) if each.arg is None else None
        if items is not None and name in items:
            return items[name]
    return None


def position_of(scope: Scope, name: str) -> int:
    """Where a parameter stands among the positions; after all of them where it is given by name alone."""
    by_name = getattr(getattr(scope.node, "args", None), "kwonlyargs", ())
    return END if any(one.arg == name for one in by_name) else scope.parameters.index(name)


def _may_pass(values: Values, site: Site, position: int) -> bool:
    """Whether `*rest` or `**options` of a call, whose content is not known, may hold a parameter that it does not name."""
    from ddpdoctor.source.dataflow.written_dicts import items_of  # which asks for parameters itself

    at = At(site.caller, site.call.order, site.call.block)
    starred = any(isinstance(one, ast.Starred) for one in site.arguments)
    options = [] if site.spawned else [one.value for one in site.call.node.keywords if one.arg is None]
    return (starred and position != END) or any(items_of(values, one, at) is None for one in options)


def rest_of(values: Values, scope: Scope, name: str) -> Origins | None:
    """What the callers give for `*name`, the parameter that takes all other positions; None of any other name."""
    if name != rest_name(scope):
        return None
    return values.once(
        (id(scope), f"*{name}"), lambda: _rest(values, scope), values.context_in(scope), values.single_in(scope)
    )


def rest_name(scope: Scope) -> str:
    """The name of the parameter that takes all other positions; empty where there is none."""
    rest = getattr(getattr(scope.node, "args", None), "vararg", None)
    return rest.arg if isinstance(rest, ast.arg) else ""


def rest_at(scope: Scope, site: Site) -> tuple[ast.expr, ...]:
    """What one call gives for it."""
    taken = len([*scope.node.args.posonlyargs, *scope.node.args.args])  # type: ignore[attr-defined]
    return site.arguments[max(0, taken - site.first) :]


def _rest(values: Values, scope: Scope) -> Iterable[Origin]:
    sites, around = ways_into(values, scope)
    for site in sites if len(sites) <= MOST_SITES else ():
        at = At(site.caller, site.call.order, site.call.block)
        for given in rest_at(scope, site):
            yield from values.within(around, partial(values.of, given, at))


def has_unknown(site: Site) -> bool:
    """Whether a call passes on arguments whose number or names are not written there: `*rest`, `**options`."""
    starred = any(isinstance(one, ast.Starred) for one in site.arguments)
    return starred or any(one.arg is None for one in site.call.node.keywords)


def _spawned(values: Values, name: str, site: Site) -> Origin:
    file, line = values.project.sources[site.caller.file].place(site.call.node.lineno)
    link = Link(text=f"{name} is the index that {site.spawned} gives", file=file, line=line)
    return Origin(kind=Kind.SPAWN_INDEX, text=name, why=(link,))


def _counted(node: ast.expr, at: At) -> bool:
    """Whether it is the variable of a loop over `range`: each process that is started gets another number."""
    if not isinstance(node, ast.Name):
        return False
    return any(
        definition.form == "for" and isinstance(definition.value, ast.Call) and dotted(definition.value.func) == "range"
        for definition in at.scope.definitions.get(node.id, ())
    )


def ways_into(values: Values, scope: Scope) -> tuple[list[Site], CallingContext | None]:
    """The calls of a function, and the context around: the call by which it is looked at now, else all of them."""
    context, single = values.context_in(scope), values.single_in(scope)
    if context is not None:
        return [context.site], context.parent
    sites = sites_of(values, scope)
    return [one for one in sites if single is None or may_be_of(values, single, scope, one)], None


def sites_of(values: Values, scope: Scope) -> list[Site]:
    """The calls of a function: those by name, and those of a method on an object whose class is known."""
    found = [*values.calls_of(scope)]
    cls = scope.parent
    if cls is None or not cls.is_class:
        return found
    if scope.name.startswith("__"):
        return [*found, *_of_objects(values, cls, scope)] if scope.name == "__call__" else found
    alone, calls = _of_method(values, scope.name, values.near.get(scope.file, frozenset()))
    for caller, call in calls:
        node = call.node
        assert isinstance(node.func, ast.Attribute)
        if alone or _is_object(values, node.func.value, cls, At(caller, call.order, call.block)):
            found.append(_site_of_method(caller, call))
    return [*found, *_by_text(values, cls, scope)]


def _site_of_method(caller: Scope, call: RawCall) -> Site:
    keywords = tuple((one.arg, one.value) for one in call.node.keywords if one.arg is not None)
    return Site(caller, call, tuple(call.node.args), keywords, 1)


def _by_text(values: Values, cls: Scope, function: Scope) -> Iterable[Site]:
    """The calls of a method by its name in a variable: `getattr(hook, name)(self)`, where `name` can be it."""
    near = values.near.get(function.file, frozenset())
    for caller, call in islice((each for each in values.index.by_text if each[0].file in near), MOST_SITES):
        asked = call.node.func
        assert isinstance(asked, ast.Call)
        at = At(caller, call.order, call.block)
        if any(one.text == repr(function.name) for one in values.of(asked.args[1], at)) and _is_object(
            values, asked.args[0], cls, at
        ):
            yield _site_of_method(caller, call)


def _of_objects(values: Values, cls: Scope, function: Scope) -> Iterable[Site]:
    """The calls of a class's objects, by the names that they are assigned to."""
    near = values.near.get(function.file, frozenset())
    for name in sorted(values.index.objects.get(id(cls), ())):
        calls = (each for each in values.index.named.get(name, ()) if each[0].file in near)
        for caller, call in islice(calls, MOST_SITES):
            yield _site_of_method(caller, call)


def _of_method(values: Values, name: str, near: frozenset[str]) -> tuple[bool, list[tuple[Scope, RawCall]]]:
    """Whether one class of these files alone has a method of this name, and the first calls of it there."""
    key = (id(near), name)
    if key not in values.methods:
        owners = islice((owner for owner in values.index.owners.get(name, ()) if owner.file in near), 2)
        calls = islice((each for each in values.index.methods.get(name, ()) if each[0].file in near), MOST_SITES)
        values.methods[key] = (len([*owners]) == 1 and len(name) > 4, [*calls])
    return values.methods[key]


def _is_object(values: Values, node: ast.expr, cls: Scope, at: At) -> bool:
    return any(origin.note == f"{cls.file}::{cls.name}" for origin in values.of(node, at))
