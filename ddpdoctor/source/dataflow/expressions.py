"""What each form of expression can be, from what its parts can be."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

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
from ddpdoctor.source.dataflow.subscripts import item
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.divisions import numbered
from ddpdoctor.source.syntax.scopes import Scope


def evaluate(values: Values, node: ast.expr, at: At) -> Iterable[Origin]:
    """The alternatives of one expression."""
    if values.context is not None and isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        decided = decided_by(values, node, at)
        if decided is not None:
            return (Origin(kind=Kind.CONSTANT, text=repr(decided)),)
    match node:
        case ast.Call():
            return result(values, node, at)
        case ast.Name(id=name):
            return _named(values, name, at)
        case ast.Attribute():
            return attribute(values, node, at)
        case ast.Subscript():
            return item(values, node, at)
        case ast.Compare(left=left, comparators=others):
            return compared(values, node, [left, *others], at)
        case ast.BoolOp(values=parts):
            return either_or_both(values, node, parts, at)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return tuple(
                negated(origin)
                for origin in truth(values.of(operand, at))
                if origin.kind in TAINTS or origin.kind in {Kind.FUNCTION, Kind.SOME_RANKS}
            )
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return (Origin(kind=Kind.CONSTANT, text=f"-{value!r}"),)
        case ast.UnaryOp(operand=operand):
            return values.of(operand, at)
        case ast.BinOp():
            return result_of(values, node, at)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            decided = decided_by(values, test, at) if values.context is not None else None
            if decided is not None:
                return values.of(body if decided else orelse, at)
            return chosen(values, test, body, orelse, at)
        case ast.JoinedStr(values=parts):
            return formatted(values, node, parts, at)
        case (
            ast.FormattedValue(value=value)
            | ast.Starred(value=value)
            | ast.Await(value=value)
            | ast.NamedExpr(value=value)
        ):
            return values.of(value, at)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [origin for part in parts for origin in values.of(part, at)]
        case ast.Set():
            return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
        case ast.Dict(values=parts):
            found = [origin for part in parts for origin in values.of(part, at)]
            return [one for one in found if one.kind in {Kind.LOCAL, Kind.SHARED} or one.note == "state-dict"]
        case ast.ListComp(elt=part, generators=generators) | ast.GeneratorExp(elt=part, generators=generators):
            return _comprehended(values, part, generators, at)
        case ast.DictComp(value=part, generators=generators):
            kinds = {Kind.LOCAL, Kind.SHARED}
            return [origin for origin in _comprehended(values, part, generators, at) if origin.kind in kinds]
        case ast.SetComp():
            return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    return ()


def _named(values: Values, name: str, at: At) -> Origins:
    found = held_under(values, name, at)
    if not found and name in rank_names.RANK_NAMES and not _defined_here(at.scope, name):
        return (Origin(kind=rank_names.RANK_NAMES[name], text=name, note=note_of(name)),)
    return found


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
    same = dotted(part) != "" and dotted(part) in {dotted(one) for one in _parts(generators[0].target)}
    for origin in values.of(generators[0].iter, at):
        if origin.kind is Kind.UNORDERED or (same and origin.note == "parameters"):
            yield origin


def _parts(target: ast.expr) -> list[ast.expr]:
    """The names that a loop binds."""
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_of_values(test: ast.expr) -> bool:
    """Whether a test looks at values, and not at keys."""
    return any(
        isinstance(one, ast.Compare) and not isinstance(one.ops[0], ast.In | ast.NotIn) for one in ast.walk(test)
    )
