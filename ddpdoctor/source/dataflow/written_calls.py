"""Calls of `functools.partial`, of lambdas, and of functions that are given literals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.source.dataflow.callers import has_unknown, position_of, ways_into
from ddpdoctor.source.dataflow.origins import At, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import items_of, only_value
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import given_at
from ddpdoctor.source.syntax.scopes import Scope

_PARTIAL = "partial"
MOST_RETURNS = 3  # of a function that is looked at with the literals of one call


def partial_of(values: Values, node: ast.Call, at: At) -> tuple[ast.Call, At] | None:
    """The `functools.partial` that a call's function is, and where it is written."""
    return _partial(values, node.func, at) if _PARTIAL in values.index.named else None


def _partial(values: Values, function: ast.expr, at: At) -> tuple[ast.Call, At] | None:
    only = only_value(values, function, at) if isinstance(function, ast.Name | ast.Attribute) else None
    if only is None or not isinstance(only[0], ast.Call) or not only[0].args:
        return None
    return (only[0], only[1]) if dotted(only[0].func).rpartition(".")[2] == _PARTIAL else None


def called_for(values: Values, node: ast.Call, at: At) -> tuple[ast.Call, At] | None:
    """A call of the function inside of a partial, in whose place another call stands; None where partials form a ring."""
    partial = partial_of(values, node, at)
    if partial is None or values.substitutions.is_copied(node):
        return None
    followed: dict[int, tuple[ast.Call, At]] = {}
    while partial is not None:
        if id(partial[0]) in followed or not dotted(partial[0].args[0]):  # `fn = partial(fn, eps=1e-6)`
            return None
        followed[id(partial[0])] = partial
        partial = _partial(values, partial[0].args[0], partial[1])
    inner, place = [*followed.values()][-1]
    return values.substitutions.call(node, inner.args[0], node), place


def called(values: Values, function: ast.expr) -> ast.expr:
    """The call of a function without arguments, as a `default_factory` is called."""
    return values.substitutions.call(function, function)


def of_lambda(values: Values, node: ast.Call, at: At) -> Origins | None:
    """What a lambda gives that is called with literals alone; None of anything else."""
    only = _function_of(values, node.func, at) if not values.substitutions.is_copied(node) else None
    if only is None or not isinstance(only[0], ast.Lambda):
        return None
    names = [one.arg for one in only[0].args.args]
    literals = _literals(node, names)
    if len(literals) != len(names):
        return None
    body = values.substitutions.body(only[0].body, literals)
    return values.of(body, only[1]) if body is not None else None


def _function_of(values: Values, node: ast.expr, at: At) -> tuple[ast.expr, At] | None:
    """The expression that is called: under a name, or in a dict that is written out."""
    if isinstance(node, ast.Name):
        return only_value(values, node, at)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        items = items_of(values, node.value, at)
        return items.get(str(node.slice.value)) if items is not None else None
    return None


def with_literals(values: Values, node: ast.Call, target: Scope) -> Iterator[Origins]:
    """What each `return` of a function gives where the call names a text, such as a variable of the environment."""
    names = target.parameters[1:] if target.parent is not None and target.parent.is_class else target.parameters
    literals = {name: one for name, one in _literals(node, list(names)).items() if isinstance(one.value, str)}
    literals |= _member_value(values, node, target)
    literals = {name: one for name, one in literals.items() if name not in target.definitions}
    if not literals or len(target.returns) > MOST_RETURNS or values.substitutions.is_copied(node):
        return
    if not any(literals.keys() & (values.substitutions.names_in(value) or ()) for value, _, _ in target.returns):
        return
    bodies = [values.substitutions.body(value, literals) for value, _, _ in target.returns]
    if None in bodies:
        return
    for body, (_, order, block) in zip(bodies, target.returns, strict=True):
        yield values.of(body, At(target, order + 1, block))


def _literals(node: ast.Call, names: list[str]) -> dict[str, ast.Constant]:
    """The literals that a call gives, by parameter."""
    named = ((one.arg, one.value) for one in node.keywords if one.arg is not None and one.arg in names)
    given = [*zip(names, node.args, strict=False), *named]
    return {name: value for name, value in given if isinstance(value, ast.Constant)}


def _member_value(values: Values, node: ast.Call, target: Scope) -> dict[str, ast.Constant]:
    """`self.value` in a method that is called of a member of an enum: `Variable.RANK.read()`."""
    cls, member = target.parent, node.func.value if isinstance(node.func, ast.Attribute) else None
    if (
        cls is None
        or not cls.is_class
        or not isinstance(member, ast.Attribute)
        or not values.project.is_a(cls, "Enum", "StrEnum")
    ):
        return {}
    given = cls.definitions.get(member.attr, [])
    value = given[0].value if len(given) == 1 else None
    return {"self.value": value} if isinstance(value, ast.Constant) else {}


def method_by_text(values: Values, node: ast.expr, at: At) -> str:
    """The method that `getattr(sampler, "set_epoch", None)` takes of an object, also under a name; else empty."""
    if isinstance(node, ast.Name) and node.id in at.scope.definitions:
        only = only_value(values, node, at)
        node = only[0] if only is not None else node
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(method)), *_]):
            return method
    return ""


def called_by_default(values: Values, scope: Scope, name: str) -> str:
    """The full name of the function that a parameter stands for where no call gives another one: `loader=torch.load`."""
    default = scope.defaults.get(name) if name not in scope.definitions else None
    if default is None or scope.parent is None or not dotted(default):
        return ""
    sites = ways_into(values, scope)[0]
    if any(has_unknown(site) or given_at(site, name, position_of(scope, name)) is not None for site in sites):
        return ""
    meant = values.project.resolve(scope.parent, dotted(default))
    return meant if isinstance(meant, str) else ""
