"""What each form of expression can be, from what its parts can be."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.attribute_access import attribute
from ddpdoctor.source.dataflow.call_results import result
from ddpdoctor.source.dataflow.chosen_values import truth
from ddpdoctor.source.dataflow.conditions import chosen, compared, either_or_both, negated
from ddpdoctor.source.dataflow.formatted_texts import formatted
from ddpdoctor.source.dataflow.held_by_names import held_under
from ddpdoctor.source.dataflow.lengths import UNEVEN, is_even
from ddpdoctor.source.dataflow.literals import decided_by
from ddpdoctor.source.dataflow.operations import result_of
from ddpdoctor.source.dataflow.origins import TAINTS, At, Origins, note_of
from ddpdoctor.source.dataflow.returned_values import uncalled
from ddpdoctor.source.dataflow.subscripts import item
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.code_text import name_of_lambda
from ddpdoctor.source.syntax.divisions import numbered
from ddpdoctor.source.syntax.scopes import Scope

_DECIDED = (ast.Compare, ast.BoolOp, ast.UnaryOp)
"""The forms of which the call by which a function is looked at may leave one answer."""


def evaluate(values: Values, node: ast.expr, at: At) -> Iterable[Origin]:
    """The alternatives of one expression."""
    if values.context is not None and isinstance(node, _DECIDED):
        decided = decided_by(values, node, at)
        if decided is not None:
            return (Origin(kind=Kind.CONSTANT, text=repr(decided)),)
    form = _FORMS.get(type(node))
    return form(values, node, at) if form is not None else ()


def _named(values: Values, node: ast.Name, at: At) -> Origins:
    name = node.id
    found = held_under(values, name, at)
    if not found and name in rank_names.RANK_NAMES and not _defined_here(at.scope, name):
        return (Origin(kind=rank_names.RANK_NAMES[name], text=name, note=note_of(name)),)
    return found


def _comparison(values: Values, node: ast.Compare, at: At) -> Iterable[Origin]:
    return compared(values, node, [node.left, *node.comparators], at)


def _with_one_operand(values: Values, node: ast.UnaryOp, at: At) -> Iterable[Origin]:
    if isinstance(node.op, ast.Not):
        return tuple(
            negated(origin)
            for origin in truth(values.of(node.operand, at))
            if origin.kind in TAINTS or origin.kind in {Kind.FUNCTION, Kind.SOME_RANKS}
        )
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return (Origin(kind=Kind.CONSTANT, text=f"-{node.operand.value!r}"),)
    return values.of(node.operand, at)


def _by_a_test(values: Values, node: ast.IfExp, at: At) -> Iterable[Origin]:
    decided = decided_by(values, node.test, at) if values.context is not None else None
    if decided is not None:
        return values.of(node.body if decided else node.orelse, at)
    return chosen(values, node.test, node.body, node.orelse, at)


def _itself(
    values: Values, node: ast.FormattedValue | ast.Starred | ast.Await | ast.NamedExpr, at: At
) -> Iterable[Origin]:
    return values.of(node.value, at)


def _parts(values: Values, node: ast.Tuple | ast.List, at: At) -> Iterable[Origin]:
    return [origin for part in node.elts for origin in values.of(part, at)]


def _under_keys(values: Values, node: ast.Dict, at: At) -> Iterable[Origin]:
    found = [origin for part in node.values for origin in values.of(part, at)]
    return [one for one in found if one.kind in {Kind.LOCAL, Kind.SHARED} or one.note == "state-dict"]


def _listed(values: Values, node: ast.ListComp | ast.GeneratorExp, at: At) -> Iterable[Origin]:
    return _comprehended(values, node.elt, node.generators, at)


def _tabled(values: Values, node: ast.DictComp, at: At) -> Iterable[Origin]:
    kinds = {Kind.LOCAL, Kind.SHARED}
    return [origin for origin in _comprehended(values, node.value, node.generators, at) if origin.kind in kinds]


def _unordered(values: Values, node: ast.Set | ast.SetComp, at: At) -> Iterable[Origin]:
    return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)


def _uncalled(values: Values, node: ast.Lambda, at: At) -> Iterable[Origin]:
    """A lambda that calls something: the function that it stands for."""
    scope = at.scope.functions.get(name_of_lambda(node))
    return (uncalled(values, scope, scope.name),) if scope is not None else ()


def _defined_here(scope: Scope, name: str) -> bool:
    at: Scope | None = scope
    while at is not None:
        if name in at.definitions or name in at.functions or name in at.classes or name in at.parameters:
            return True
        at = at.parent
    return False


def _comprehended(values: Values, part: ast.expr, generators: list[ast.comprehension], at: At) -> Iterator[Origin]:
    picked = any(
        one.kind is Kind.LOCAL for test in generators[0].ifs if _is_of_values(test) for one in values.of(test, at)
    )
    ranks = (one for test in generators[0].ifs for one in values.of(test, at) if one.kind in RANK_KINDS)
    mine = next((one for one in ranks if one.note != "uncertain"), None)
    if mine is not None:  # `[f for i, f in enumerate(files) if i % world_size == rank]`
        even = is_even(values, numbered(generators[0].iter), at)
        yield replace(mine, kind=Kind.LOCAL, note="even" if even else "part")
    yield from (one for one in values.of(generators[0].iter, at) if one.kind is Kind.LOCAL and one.note in UNEVEN)
    for origin in values.of(part, at):
        if origin.kind in TAINTS:
            yield replace(origin, note="picked") if picked and origin.kind is Kind.LOCAL else origin
    same = dotted(part) != "" and dotted(part) in {dotted(one) for one in _bound(generators[0].target)}
    for origin in values.of(generators[0].iter, at):
        if origin.kind is Kind.UNORDERED or (same and origin.note == "parameters"):
            yield origin


def _bound(target: ast.expr) -> list[ast.expr]:
    """The names that a loop binds."""
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_of_values(test: ast.expr) -> bool:
    """Whether a test looks at values, and not at keys."""
    return any(
        isinstance(one, ast.Compare) and not isinstance(one.ops[0], ast.In | ast.NotIn) for one in ast.walk(test)
    )


_FORMS: dict[type[ast.expr], Callable[[Values, Any, At], Iterable[Origin]]] = {
    ast.Call: result, ast.Name: _named, ast.Attribute: attribute, ast.Subscript: item, ast.Compare: _comparison,
    ast.BoolOp: either_or_both, ast.UnaryOp: _with_one_operand, ast.BinOp: result_of, ast.IfExp: _by_a_test,
    ast.JoinedStr: formatted, ast.FormattedValue: _itself, ast.Starred: _itself, ast.Await: _itself,
    ast.NamedExpr: _itself, ast.Tuple: _parts, ast.List: _parts, ast.Dict: _under_keys, ast.ListComp: _listed,
    ast.GeneratorExp: _listed, ast.DictComp: _tabled, ast.Set: _unordered, ast.SetComp: _unordered,
    ast.Lambda: _uncalled,
}  # fmt: skip
"""By the form of an expression, what it can be."""
