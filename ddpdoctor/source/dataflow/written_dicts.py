"""The keys and values of dicts that are written out, also under a name, in an attribute, or in what a function returns."""

from __future__ import annotations

import ast
from dataclasses import replace

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.callers import position_of, rest_at, rest_name, ways_into
from ddpdoctor.source.dataflow.origins import At, Origins, joined
from ddpdoctor.source.dataflow.reaching_definitions import reaching
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import given_at
from ddpdoctor.source.syntax.scopes import Definition, Scope

MOST_CHANGES = 30  # assignments of one name that are looked at
MOST_STEPS = 8  # names, parameters and functions on the way to a dict


_DICTS = frozenset(
    {"dict", "SimpleNamespace", "Namespace", "EasyDict", "Munch", "AttrDict", "DotMap", "ConfigDict", "OrderedDict"}
)
"""What makes a dict, or an object whose attributes are one, out of keywords or of another dict."""
_HOLDS_ITEMS = (ast.Dict, ast.DictComp, ast.List, ast.Tuple, ast.Name, ast.Call)
_HELD_BY_KEY = frozenset({Kind.LOADER, Kind.SAMPLER, Kind.DATASET, Kind.MODEL, Kind.WRAPPED, Kind.OBJECT})
Items = dict[str, tuple[ast.expr, At]]
"""By key, a value and the place where it is written."""


def items_of(values: Values, node: ast.expr, at: At, steps: int = MOST_STEPS) -> Items | None:
    """The keys and values of a dict that is written out, also under a name or by a function; None of any other."""
    match node:
        case ast.Name(id=name) if name == _rest_of(at.scope):
            return _given_by_name(values, at.scope)
        case ast.Name() | ast.Attribute():
            only = only_value(values, node, at) if steps else None
            if only is None and steps and isinstance(node, ast.Attribute):
                return _within(values, node.value, node.attr, at, steps - 1)
            written = items_of(values, *only, steps - 1) if only is not None else None
            grown = _grown(values, dotted(node), written, at, steps - 1) if written is not None else None
            return _changed(node, grown, at) if grown is not None else None
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))) if steps:
            return _within(values, owner, key, at, steps - 1)
        case ast.Dict():
            return _joined(values, list(zip(node.keys, node.values, strict=True)), at, steps)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _joined(values, [(None, left), (None, right)], at, steps)
        case ast.DictComp(key=ast.Name(id=key), generators=[ast.comprehension(target=ast.Name(id=each), iter=listed)]):
            names = listed.elts if key == each and isinstance(listed, ast.Tuple | ast.List) else []
            written_out = [values.substitutions.element(node, number) for number in range(len(names))]
            found = zip(names, written_out, strict=True)
            return {
                str(one.value): (value, at)
                for one, value in found
                if isinstance(one, ast.Constant) and value is not None
            }
        case ast.DictComp(
            key=ast.Name(id=key),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[ast.Name(id=each), _]),
                    iter=ast.Call(func=ast.Attribute(value=table, attr="items")),
                )
            ],
        ) if steps and key == each:
            under = (
                (word, values.substitutions.item(node, word)) for word in items_of(values, table, at, steps - 1) or {}
            )
            return {word: (value, at) for word, value in under if value is not None} or None
        case ast.Call() if steps and (returned := _only_return(values, node, at)) is not None:
            return items_of(values, *returned, steps - 1)
        case ast.Call(func=made, args=given) if len(given) < 2 and dotted(made).rpartition(".")[2] in _DICTS:
            named = [(ast.Constant(value=one.arg) if one.arg else None, one.value) for one in node.keywords]
            return _joined(values, [*((None, one) for one in given), *named], at, steps)
    return None


def of_any_key(values: Values, owner: ast.expr, at: At) -> Origins:
    """The objects that a dict that is written out holds, where the key is a variable: `loaders[phase]`."""
    written = items_of(values, owner, at) if isinstance(owner, ast.Name | ast.Attribute) else None
    found = (one for held in (written or {}).values() for one in values.of(*held))
    return joined(one for one in found if one.kind in _HELD_BY_KEY)


def is_environment(values: Values, node: ast.expr, at: At) -> bool:
    """Whether an expression is `os.environ`, a copy of it, or a name or parameter for one of these."""
    name = dotted(node)
    if name:
        default = at.scope.defaults.get(name) if name not in at.scope.definitions else None
        if name.endswith("environ") or (default is not None and dotted(default).endswith("environ")):
            return True
        only = only_value(values, node, at) if isinstance(node, ast.Name) else None
        return only is not None and _is_copy_of_environment(only[0])
    return _is_copy_of_environment(node)


def _is_copy_of_environment(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="environ"):
            return True
        case ast.Call(func=ast.Name(id="dict"), args=[ast.Attribute(attr="environ"), *_]):
            return True
        case ast.Call(func=ast.Attribute(attr="copy", value=ast.Attribute(attr="environ"))):
            return True
        case ast.Dict(keys=keys, values=parts):
            return any(key is None and dotted(part).endswith("environ") for key, part in zip(keys, parts, strict=True))
    return False


def place_of(
    values: Values, node: ast.expr, number: int, at: At, steps: int = MOST_STEPS
) -> tuple[ast.expr, At] | None:
    """The element of a list or tuple that is written out, also under a name or by a function, and where it is written.

    None where something may change its place.
    """
    match node:
        case ast.Name() | ast.Attribute() if steps:
            changed = any(one.form != "assign" for one in at.scope.definitions.get(dotted(node), ()))
            only = only_value(values, node, at) if not changed else None
            return place_of(values, only[0], number, only[1], steps - 1) if only is not None else None
        case ast.Call() if steps and (returned := _only_return(values, node, at)) is not None:
            return place_of(values, returned[0], number, returned[1], steps - 1)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            plain = 0 <= number < len(parts) and not any(isinstance(one, ast.Starred) for one in parts)
            return (parts[number], at) if plain else None
    return None


def _within(values: Values, owner: ast.expr, key: str, at: At, steps: int) -> Items | None:
    """The dict that a dict holds under a key: `config["dist"]`, and `config.dist` of a namespace."""
    around = items_of(values, owner, at, steps)
    return items_of(values, *around[key], steps) if around is not None and key in around else None


def _joined(values: Values, pairs: list[tuple[ast.expr | None, ast.expr]], at: At, steps: int) -> Items | None:
    """The items of a dict that is made of keys and of other dicts, which stand under no key."""
    found: Items = {}
    for key, value in pairs:
        if isinstance(key, ast.Constant):
            found[str(key.value)] = (value, at)
        elif key is None and steps and (inner := items_of(values, value, at, steps - 1)) is not None:
            found |= inner
        else:
            return None
    return found


def _rest_of(scope: Scope) -> str:
    """The name of the parameter that takes all other keywords: `options` of `def f(a, **options)`."""
    rest = getattr(getattr(scope.node, "args", None), "kwarg", None)
    return rest.arg if isinstance(rest, ast.arg) else ""


def _given_by_name(values: Values, scope: Scope) -> Items | None:
    """What the only call of a function gives to the parameter that takes all other keywords."""
    sites, _ = ways_into(values, scope)
    if len(sites) != 1 or any(one.arg is None for one in sites[0].call.node.keywords) or sites[0].spawned:
        return None
    place = At(sites[0].caller, sites[0].call.order, sites[0].call.block)
    return {name: (value, place) for name, value in sites[0].keywords if name not in scope.parameters}


def _grown(values: Values, name: str, written: Items, at: At, steps: int) -> Items | None:
    """A dict with those that its `update` takes in before a line; None where that is not known."""
    defined = at.scope.definitions
    single = {id(one.value) for key, given in defined.items() if key.startswith(f"{name}[") for one in given}
    for one in defined.get(name, ()):
        if one.form != "change" or one.order >= at.order or one.value is None or isinstance(one.value, ast.Dict):
            continue
        if id(one.value) in single:  # `options["lr"] = 0.1`, which `_changed` adds
            continue
        taken = items_of(values, one.value, At(at.scope, one.order, one.block), steps) if steps > 0 else None
        if taken is None or not reaching([replace(one, kills=True)], at.order, at.block)[1]:
            return None
        written = written | taken
    return written


def _changed(node: ast.Name | ast.Attribute, written: Items, at: At) -> Items | None:
    """A dict with what this function assigns to its keys afterwards; None where that is not known."""
    name = dotted(node)
    items = written
    for key, definitions in at.scope.definitions.items():
        item = _key(key[len(name) + 1 : -1]) if key.startswith(f"{name}[") and key.endswith("]") else None
        if item is None:
            continue
        before = [one for one in definitions if one.order < at.order]
        if not before:
            continue
        _, always = reaching(before, at.order, at.block)
        last = before[-1]
        value = last.value if always and not last.index else _chosen(before, items.get(item))
        if value is None:
            return None
        items = {**items, item: (value, At(at.scope, last.order, last.block))}
    return items


def _chosen(definitions: list[Definition], before: tuple[ast.expr, At] | None) -> ast.expr | None:
    """What a key holds that one branch alone assigns to: `value if test else None`; None where that is not known."""
    only, *others = definitions
    block, otherwise = only.block, before[0] if before is not None else ast.Constant(None)
    test = block.test if block.form == "if" and not block.branch else None
    if block.form == "else" and isinstance(block.node, ast.If) and block.branch == 1:
        test = ast.UnaryOp(ast.Not(), block.node.test)
    if others or only.value is None or only.index or test is None or not isinstance(otherwise, ast.Constant):
        return None
    kept: ast.IfExp | None = only.value.__dict__.get("chosen")
    if kept is None:
        kept = only.value.__dict__["chosen"] = ast.copy_location(ast.IfExp(test, only.value, otherwise), only.value)
    return kept


def _key(written: str) -> str | None:
    """The key that a constant in brackets stands for; None of `...` and of numbers without an end, which have no literal."""
    try:
        return str(ast.literal_eval(written))
    except (ValueError, SyntaxError):
        return None


def only_value(values: Values, node: ast.Name | ast.Attribute, at: At) -> tuple[ast.expr, At] | None:
    """The one expression that a name, a parameter or an attribute of this class holds; None where there are several."""
    name = dotted(node)
    owner, _, attribute = name.rpartition(".")
    cls = at.scope.of_class if owner == "self" else None
    if cls is not None:
        given = [(scope, one) for scope, one, _ in values.index.attributes.get((id(cls), attribute), ())]
    elif not name:
        return None
    elif not owner and name in at.scope.parameters and name not in at.scope.definitions:
        return _only_argument(values, at.scope, name)
    elif not owner and name in at.scope.definitions:
        given = [(at.scope, one) for one in at.scope.definitions[name][:MOST_CHANGES]]
    else:
        meant = values.project.resolve(at.scope, name)
        if not isinstance(meant, tuple):
            return None
        given = [(meant[0], one) for one in meant[0].definitions.get(meant[1], ())[:MOST_CHANGES]]
    if len(given) >= MOST_CHANGES:
        return None
    given = [(scope, one) for scope, one in given if one.form != "change"]
    if len(given) != 1 or given[0][1].index or given[0][1].value is None:
        return None
    scope, one = given[0]
    if one.form == "with":
        return _only_yield(values, one.value, At(scope, one.order, one.block))
    return (one.value, At(scope, one.order, one.block)) if one.form == "assign" and one.value is not None else None


def _only_yield(values: Values, node: ast.expr | None, at: At) -> tuple[ast.expr, At] | None:
    """What a generator of the program that `with` enters yields, where it does so in one place."""
    target = values.meaning(node, at).target if isinstance(node, ast.Call) else None
    if target is None or target.is_class or len(target.yields) != 1:
        return None
    value, order, block = target.yields[0]
    return value, At(target, order + 1, block)


def positions_of(values: Values, node: ast.Call, at: At) -> list[tuple[ast.expr, At]]:
    """The positional arguments of a call; in place of `*name` those that it stands for, where one call gives them."""
    found: list[tuple[ast.expr, At]] = []
    for each in node.args:
        if type(each) is not ast.Starred:
            found.append((each, at))
            continue
        sites = ways_into(values, at.scope)[0]
        passed_on = dotted(each.value) == rest_name(at.scope) != ""
        if passed_on and len(sites) == 1 and not sites[0].spawned:
            place = At(sites[0].caller, sites[0].call.order, sites[0].call.block)
            found += [(one, place) for one in rest_at(at.scope, sites[0])]
        else:
            found.append((each, at))
    return found


def _only_argument(values: Values, scope: Scope, name: str) -> tuple[ast.expr, At] | None:
    """What the only call of a function gives for a parameter."""
    sites, _ = ways_into(values, scope)
    given = given_at(sites[0], name, position_of(scope, name)) if len(sites) == 1 else None
    return (given, At(sites[0].caller, sites[0].call.order, sites[0].call.block)) if given is not None else None


def _only_return(values: Values, node: ast.Call, at: At) -> tuple[ast.expr, At] | None:
    """What a function of the program returns where it does so in one place: a dict, a list, or what may stand for one."""
    target = values.meaning(node, at).target
    if target is None or target.is_class or len(target.returns) != 1:
        return None
    value, order, block = target.returns[0]
    return (value, At(target, order + 1, block)) if isinstance(value, _HOLDS_ITEMS) else None
