"""What the callers of a function give for its parameters, and who they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ddpdoctor.evidence.training_code import Kind, Link, Origin
from ddpdoctor.source import torch_names as names
from ddpdoctor.source.index import Site
from ddpdoctor.source.origins import At, Origins, further, note_of
from ddpdoctor.source.reaching import END
from ddpdoctor.source.scopes import RawCall, Scope
from ddpdoctor.source.walk import dotted

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values


MOST_SITES = 12


def parameter_of(values: Values, scope: Scope, name: str) -> Origins:
    """What the callers of a function give for a parameter; the default where none is known."""
    return values.once((id(scope), name), lambda: _parameter(values, scope, name))


def _parameter(values: Values, scope: Scope, name: str) -> Origins:
    found = tuple(_from_sites(values, scope, name))
    if not found and name in names.RANK_NAMES:
        return (Origin(kind=names.RANK_NAMES[name], text=name, note=note_of(name)),)
    return found


def _from_sites(values: Values, scope: Scope, name: str) -> Iterable[Origin]:
    sites = sites_of(values, scope)
    method = scope.parent is not None and scope.parent.is_class
    position = scope.parameters.index(name)
    if not sites:
        default = scope.defaults.get(name)
        if default is not None and scope.parent is not None:
            yield from values.of(default, At(scope.parent, END, scope.parent.root))
        return
    if len(sites) > MOST_SITES:
        return
    for site in sites:
        if site.spawned and site.first and position < site.first:
            yield _spawned(values, name, site)
            continue
        given = given_at(site, name, position)
        if given is None:
            default = scope.defaults.get(name)
            if default is not None and scope.parent is not None:
                yield from values.of(default, At(scope.parent, END, scope.parent.root))
            continue
        at = At(site.caller, site.call.order, site.call.block)
        if site.spawned == "Process" and _counted(given, at):
            yield _spawned(values, name, site)
            continue
        file, line = values.project.sources[site.caller.file].place(site.call.node.lineno)
        if method and position == 0:
            continue
        link = Link(text=f"{name} is given {values.text(given, site.caller)}", file=file, line=line)
        yield from further(values.of(given, at), link)


def given_at(site: Site, name: str, position: int) -> ast.expr | None:
    """What a call gives for a parameter; None where it does not."""
    for keyword, value in site.keywords:
        if keyword == name:
            return value
    place = position - site.first
    if 0 <= place < len(site.arguments) and not any(isinstance(arg, ast.Starred) for arg in site.arguments):
        return site.arguments[place]
    return None


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


def sites_of(values: Values, scope: Scope) -> list[Site]:
    """The calls of a function: those by name, and those of a method on an object whose class is known."""
    found = list(values.index.sites.get(id(scope), ()))
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
            keywords = tuple((one.arg, one.value) for one in node.keywords if one.arg is not None)
            found.append(Site(caller, call, tuple(node.args), keywords, 1))
    return found


def _of_objects(values: Values, cls: Scope, function: Scope) -> Iterable[Site]:
    """The calls of a class's objects, by the names that they are assigned to."""
    near = values.near.get(function.file, frozenset())
    for name in sorted(values.index.objects.get(id(cls), ())):
        calls = (each for each in values.index.named.get(name, ()) if each[0].file in near)
        for caller, call in islice(calls, MOST_SITES):
            keywords = tuple((one.arg, one.value) for one in call.node.keywords if one.arg is not None)
            yield Site(caller, call, tuple(call.node.args), keywords, 1)


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
