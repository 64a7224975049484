"""The calls of a function, and at which position they give each parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import islice

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.origins import At, without_context
from ddpdoctor.source.dataflow.reaching_definitions import END
from ddpdoctor.source.dataflow.single_objects import SingleObject
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calling_contexts import CallingContext
from ddpdoctor.source.program.calls_in_programs import MOST_SITES
from ddpdoctor.source.program.index import Site
from ddpdoctor.source.syntax.scopes import RawCall, Scope


def ways_into(values: Values, scope: Scope) -> tuple[list[Site], CallingContext | None]:
    """The calls of a function, and the context around: the call by which it is looked at now, else all of them."""
    context, single = values.context_in(scope), values.single_in(scope)
    if context is not None:
        return [context.site], context.parent
    sites = sites_of(values, scope)
    if single is None:
        return sites, None
    return [one for one in sites if may_be_of(values, single, scope, one)], single.context


def sites_of(values: Values, scope: Scope) -> list[Site]:
    """The calls of a function: those by name, and those of a method on an object whose class is known."""
    found = [*values.code.calls_of(scope)]
    cls = scope.parent
    if cls is None or not cls.is_class:
        return found
    if scope.name.startswith("__"):
        return [*found, *_of_objects(values, cls, scope)] if scope.name == "__call__" else found
    alone, calls = values.code.calls_of_method(scope.name, values.code.near.get(scope.file, frozenset()))
    for caller, call in calls:
        node = call.node
        assert isinstance(node.func, ast.Attribute)
        if alone or _is_object(values, node.func.value, cls, At(caller, call.order, call.block)):
            found.append(_site_of_method(caller, call))
    return [*found, *_by_text(values, cls, scope)]


def _by_text(values: Values, cls: Scope, function: Scope) -> Iterable[Site]:
    """The calls of a method by its name in a variable: `getattr(hook, name)(self)`, where `name` can be it."""
    near = values.code.near.get(function.file, frozenset())
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
    near = values.code.near.get(function.file, frozenset())
    for name in sorted(values.index.objects.get(id(cls), ())):
        calls = (each for each in values.index.named.get(name, ()) if each[0].file in near)
        for caller, call in islice(calls, MOST_SITES):
            yield _site_of_method(caller, call)


def _site_of_method(caller: Scope, call: RawCall) -> Site:
    keywords = tuple((one.arg, one.value) for one in call.node.keywords if one.arg is not None)
    return Site(caller, call, tuple(call.node.args), keywords, 1)


def _is_object(values: Values, node: ast.expr, cls: Scope, at: At) -> bool:
    return any(origin.note == f"{cls.file}::{cls.name}" for origin in values.of(node, at))


def may_be_of(values: Values, single: SingleObject, method: Scope, site: Site) -> bool:
    """Whether a call of a method can be one of this object's."""
    node, at = site.call.node, At(site.caller, site.call.order, site.call.block)
    if method.name in {"__init__", "__post_init__"}:
        return without_context(values.where(node, site.caller)) == single.made or _is_super(node.func)
    owner = node.func if method.name == "__call__" else getattr(node.func, "value", None)
    if not isinstance(owner, ast.expr) or dotted(owner).partition(".")[0] in {"self", "cls"} or _is_super(node.func):
        return True
    made = [without_context(one.made) for one in values.of(owner, at) if one.kind is Kind.INSTANCE]
    return not made or single.made in made


def _is_super(function: ast.expr) -> bool:
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Call) and dotted(owner.func) == "super"


def position_of(scope: Scope, name: str) -> int:
    """Where a parameter stands among the positions; after all of them where it is given by name alone."""
    by_name = getattr(getattr(scope.node, "args", None), "kwonlyargs", ())
    return END if any(one.arg == name for one in by_name) else scope.parameters.index(name)


def rest_name(scope: Scope) -> str:
    """The name of the parameter that takes all other positions; empty where there is none."""
    rest = getattr(getattr(scope.node, "args", None), "vararg", None)
    return rest.arg if isinstance(rest, ast.arg) else ""


def rest_at(scope: Scope, site: Site) -> tuple[ast.expr, ...]:
    """What one call gives for it."""
    taken = len([*scope.node.args.posonlyargs, *scope.node.args.args])  # type: ignore[attr-defined]
    return site.arguments[max(0, taken - site.first) :]


def has_unknown(site: Site) -> bool:
    """Whether a call passes on arguments whose number or names are not written there: `*rest`, `**options`."""
    starred = any(isinstance(one, ast.Starred) for one in site.arguments)
    return starred or any(one.arg is None for one in site.call.node.keywords)
