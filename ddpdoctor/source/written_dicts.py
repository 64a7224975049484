"""The keys and values of dicts that are written out, also under a name, in an attribute, or in what a function returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ddpdoctor.source.call_meanings import meaning
from ddpdoctor.source.origins import At
from ddpdoctor.source.parameters import given_at, sites_of
from ddpdoctor.source.reaching import reaching
from ddpdoctor.source.scopes import Scope
from ddpdoctor.source.unpacking import one_of_many
from ddpdoctor.source.walk import dotted

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values

MOST_STEPS = 8  # names, parameters and functions on the way to a dict


def items_of(values: Values, node: ast.expr, at: At, steps: int = MOST_STEPS) -> tuple[dict[str, ast.expr], At] | None:
    """The keys and values of a dict that is written out, also under a name or by a function; None of any other."""
    match node:
        case ast.Name() | ast.Attribute():
            only = _only_value(values, node, at) if steps else None
            written = items_of(values, *only, steps - 1) if only is not None else None
            return _changed(node, written, at) if written is not None else None
        case ast.Dict() if all(isinstance(key, ast.Constant) for key in node.keys):
            return {
                str(key.value): value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }, at
        case ast.DictComp(key=ast.Name(id=key), generators=[ast.comprehension(target=ast.Name(id=each), iter=listed)]):
            names = listed.elts if key == each and isinstance(listed, ast.Tuple | ast.List) else []
            written_out = [one_of_many(values, node, number) for number in range(len(names))]
            found = zip(names, written_out, strict=True)
            return {
                str(one.value): value for one, value in found if isinstance(one, ast.Constant) and value is not None
            }, at
        case ast.Call() if steps and (returned := _only_return(values, node, at)) is not None:
            return items_of(values, *returned, steps - 1)
        case ast.Call(func=ast.Name(id="dict"), args=[]) if all(one.arg for one in node.keywords):
            return {str(one.arg): one.value for one in node.keywords}, at
    return None


def _changed(
    node: ast.Name | ast.Attribute, written: tuple[dict[str, ast.expr], At], at: At
) -> tuple[dict[str, ast.expr], At] | None:
    """A dict with what this function assigns to its keys afterwards; None where only some runs do so."""
    name = dotted(node)
    items, made = written
    for key, definitions in at.scope.definitions.items():
        if not key.startswith(f"{name}[") or not key.endswith("]"):
            continue
        before = [one for one in definitions if one.order < at.order]
        if not before:
            continue
        _, always = reaching(before, at.order, at.block)
        value = before[-1].value
        if not always or value is None or before[-1].index or made.scope is not at.scope:
            return None
        items = {**items, str(ast.literal_eval(key[len(name) + 1 : -1])): value}
    return items, made if items is written[0] else at


def _only_value(values: Values, node: ast.Name | ast.Attribute, at: At) -> tuple[ast.expr, At] | None:
    """The one expression that a name, a parameter or an attribute of this class holds; None where there are several."""
    name = dotted(node)
    owner, _, attribute = name.rpartition(".")
    cls = at.scope.of_class
    if owner == "self" and cls is not None:
        given = [(scope, one) for scope, one, _ in values.index.attributes.get((id(cls), attribute), ())]
    elif owner or not name:
        return None
    elif name in at.scope.parameters and name not in at.scope.definitions:
        return _only_argument(values, at.scope, name)
    else:
        given = [(at.scope, one) for one in at.scope.definitions.get(name, ())]
    given = [(scope, one) for scope, one in given if one.form != "change"]
    if len(given) != 1 or given[0][1].form != "assign" or given[0][1].index:
        return None
    scope, one = given[0]
    plain = isinstance(one.value, ast.Dict | ast.DictComp | ast.Call | ast.Name | ast.Attribute)
    return (one.value, At(scope, one.order, one.block)) if plain and one.value is not None else None


def _only_argument(values: Values, scope: Scope, name: str) -> tuple[ast.expr, At] | None:
    """What the only call of a function gives for a parameter."""
    sites = sites_of(values, scope)
    given = given_at(sites[0], name, scope.parameters.index(name)) if len(sites) == 1 else None
    return (given, At(sites[0].caller, sites[0].call.order, sites[0].call.block)) if given is not None else None


def _only_return(values: Values, node: ast.Call, at: At) -> tuple[ast.expr, At] | None:
    """What a function of the program returns where it does so in one place: a dict, or a name."""
    target = meaning(values, node, at).target
    if target is None or target.is_class or len(target.returns) != 1:
        return None
    value, order, block = target.returns[0]
    return (value, At(target, order + 1, block)) if isinstance(value, ast.Dict | ast.Name) else None
