"""What the callers of a function give for its parameters, and who they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ddpdoctor.evidence.code_values import OF_TRAINER, Kind, Link, Origin
from ddpdoctor.source.dataflow.callers import position_of, rest_at, rest_name, ways_into
from ddpdoctor.source.dataflow.origins import At, Origins, joined, note_of, with_link
from ddpdoctor.source.dataflow.reaching_definitions import END
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import items_of
from ddpdoctor.source.names import framework_names, rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calls_in_programs import MOST_SITES
from ddpdoctor.source.program.classes import is_trainer
from ddpdoctor.source.program.index import Site, given_at
from ddpdoctor.source.syntax.scopes import Scope

_SIZES = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT})


def parameter_of(values: Values, scope: Scope, name: str) -> Origins:
    """What the callers of a function give for a parameter; the default where none is known."""
    context, single = values.context_in(scope), values.single_in(scope)
    return values.once((id(scope), name), context, single, _parameter, values, scope, name)


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
    return takes and cls is not None and is_trainer(values.project, cls)


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
    starred = bool(site.arguments) and isinstance(site.arguments[-1], ast.Starred)
    if found is None and starred and (passed := tuple(_passed_on(values, scope, site, position))):
        return joined(origin for node, at in passed for origin in values.of(node, at))
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
    at = At(site.caller, site.call.order, site.call.block)
    given = given_at(site, name, position)
    if given is not None:
        return given, at
    for each in site.call.node.keywords if not site.spawned else ():
        items = items_of(values, each.value, at) if each.arg is None else None
        if items is not None and name in items:
            return items[name]
    return None


def _passed_on(values: Values, scope: Scope, site: Site, position: int) -> Iterable[tuple[ast.expr, At]]:
    """What the calls of the function around give for a position that is passed on in `*rest`, and where it is written.

    Where the function around takes the method's name, as in `getattr(hook, event)(self, *rest)`, those that name this one.
    """
    rest = site.arguments[-1] if site.arguments and position != END else None
    index = position - site.first - (len(site.arguments) - 1)
    caller = site.caller
    if (
        index < 0
        or not isinstance(rest, ast.Starred)
        or not dotted(rest.value)
        or dotted(rest.value) != rest_name(caller)
    ):
        return
    func = site.call.node.func
    key = func.args[1] if isinstance(func, ast.Call) and len(func.args) > 1 else None
    for each in ways_into(values, caller)[0][:MOST_SITES]:
        at = At(each.caller, each.call.order, each.call.block)
        if isinstance(key, ast.Name) and key.id in caller.parameters:
            asked = given_at(each, key.id, position_of(caller, key.id))
            if not isinstance(asked, ast.Constant) or asked.value != scope.name:
                continue
        given = rest_at(caller, each)
        if index < len(given):
            yield given[index], at


def _may_pass(values: Values, site: Site, position: int) -> bool:
    """Whether `*rest` or `**options` of a call, whose content is not known, may hold a parameter that it does not name."""
    at = At(site.caller, site.call.order, site.call.block)
    starred = any(isinstance(one, ast.Starred) for one in site.arguments)
    options = [] if site.spawned else [one.value for one in site.call.node.keywords if one.arg is None]
    return (starred and position != END) or any(items_of(values, one, at) is None for one in options)


def rest_of(values: Values, scope: Scope, name: str) -> Origins | None:
    """What the callers give for `*name`, the parameter that takes all other positions; None of any other name."""
    if name != rest_name(scope):
        return None
    context, single = values.context_in(scope), values.single_in(scope)
    return values.once((id(scope), f"*{name}"), context, single, _rest, values, scope)


def _rest(values: Values, scope: Scope) -> Iterable[Origin]:
    sites, around = ways_into(values, scope)
    for site in sites if len(sites) <= MOST_SITES else ():
        at = At(site.caller, site.call.order, site.call.block)
        for given in rest_at(scope, site):
            yield from values.within(around, partial(values.of, given, at))


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
