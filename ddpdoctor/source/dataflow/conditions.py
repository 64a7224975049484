"""What a test depends on: comparisons, `and`, `or`, `not`, and values that a test chooses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.grouping import grouped
from ddpdoctor.source.dataflow.chosen_values import (
    Alternative,
    by_comparison,
    chosen_by,
    is_member,
    label,
    rank_tests,
    truth,
)
from ddpdoctor.source.dataflow.lengths import of_empty_items
from ddpdoctor.source.dataflow.origins import FLIPPED, TAINTS, At, Origins, or_unknown
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted, is_none

_NUMBERS_OF_RANKS = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT, Kind.CONSTANT})
_MIRRORED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.Eq(), ast.NotEq: ast.NotEq(), ast.Is: ast.Is(), ast.IsNot: ast.IsNot(),
    ast.Lt: ast.Gt(), ast.Gt: ast.Lt(), ast.LtE: ast.GtE(), ast.GtE: ast.LtE(),
}  # fmt: skip


def compared(values: Values, node: ast.Compare, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    """What `a == b` depends on; `0 == rank` is read as `rank == 0`."""
    operator = node.ops[0]
    if len(parts) == 2 and isinstance(parts[0], ast.Constant) and type(operator) in _MIRRORED:
        operator, parts = _MIRRORED[type(operator)], parts[::-1]
    alternatives = [values.of(part, at) for part in parts]
    constants = [_constants(part) or _only_constant(found) for part, found in zip(parts, alternatives, strict=True)]
    same_for_all = any(known is not None and known <= {"-1", "None"} for known in constants) or (
        isinstance(operator, ast.GtE | ast.Lt) and constants[-1] == {"0"}
    )
    if any(any(origin.members) for origins in alternatives for origin in origins):
        yield from _of_choices(values, operator, parts, at)
        return
    if len(parts) == 2 and isinstance(operator, ast.Eq | ast.NotEq):
        yield from _of_literals(operator, *alternatives)
    if len(parts) == 2 and constants[-1] == {"0"}:
        yield from of_empty_items(values, parts[0], at)
    if len(parts) == 2 and constants[-1] in ({"True"}, {"False"}):
        same = (constants[-1] == {"True"}) == isinstance(operator, ast.Eq | ast.Is)
        for origin in alternatives[0]:
            if origin.kind in TAINTS or origin.kind is Kind.SOME_RANKS:
                yield origin if same else negated(origin)
        return
    if isinstance(operator, ast.Is | ast.IsNot) and not is_member(values, parts[-1], at):
        if constants[-1] == {"None"}:
            yield from _of_a_none_test(operator, alternatives[0])
        return
    if isinstance(operator, ast.In | ast.NotIn) and constants[0] is not None:
        alternatives = alternatives[:1]  # keys are alike on all ranks
    for origins in alternatives:
        for origin in origins:
            if origin.kind in RANK_KINDS and not same_for_all:
                one = constants[-1] or _of_world(operator, alternatives[-1])
                note = _which(operator, one) if len(parts) == 2 else ""
                if origin.note == "counted":  # those that count come to more than the others have
                    grown = origins is alternatives[0] and isinstance(operator, ast.Gt | ast.GtE)
                    note = "first" if grown else "uncertain"
                yield replace(origin, kind=Kind.RANK, note="uncertain" if origin.note == "uncertain" else note)
            elif origin.kind in {Kind.LOCAL, Kind.SHARED}:
                yield origin


def _of_literals(operator: ast.cmpop, left: Origins, right: Origins) -> Iterator[Origin]:
    """Whether literals are equal: each answer that is possible, where nothing else than literals is known for both sides."""
    if left and right and all(one.kind is Kind.CONSTANT for one in (*left, *right)):
        answers = {(one.text == other.text) is isinstance(operator, ast.Eq) for one in left for other in right}
        yield from (Origin(kind=Kind.CONSTANT, text=repr(answer)) for answer in sorted(answers, reverse=True))


def _of_choices(values: Values, operator: ast.cmpop, parts: list[ast.expr], at: At) -> Iterator[Origin]:
    """What a comparison of a choice of two members depends on."""
    for side, part in enumerate(parts):
        for origin in values.of(part, at):
            if not any(origin.members):
                continue
            if len(parts) > 2 or not _is_choice(values, part, at):
                yield replace(origin, note="uncertain", members=("", ""))
            else:
                yield from by_comparison(values, origin, operator, parts[1 - side], at, left=side == 0)


def _is_choice(values: Values, node: ast.expr, at: At) -> bool:
    """Whether an expression holds a member itself, and nothing that is computed from it."""
    if isinstance(node, ast.Call):
        return values.meaning(node, at).target is not None
    return isinstance(node, ast.Name | ast.Attribute | ast.IfExp | ast.NamedExpr | ast.Subscript)


def _of_a_none_test(operator: ast.cmpop, origins: Origins) -> Iterator[Origin]:
    """What `x is None` depends on: the rank where only some ranks have `x`, the rank's own data where `x` is a batch."""
    for origin in origins:
        if origin.kind is Kind.SOME_RANKS:
            yield replace(
                origin, kind=Kind.RANK, note=origin.note if isinstance(operator, ast.IsNot) else _others(origin)
            )
        elif origin.kind is Kind.LOCAL and origin.note == "batch":
            yield origin


def _others(origin: Origin) -> str:
    """The note of the ranks that do not have an object; where it is not certain which ranks have it, that is not either."""
    return "uncertain" if origin.note == "uncertain" else FLIPPED.get(origin.note, "")


def _constants(node: ast.expr) -> set[str] | None:
    """The literals that an expression consists of: `{"-1", "0"}` of `(-1, 0)`; None where it is anything else."""
    match node:
        case ast.Constant(value=value):
            return {repr(value)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return {f"-{value!r}"}
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            known = [_constants(part) for part in parts]
            return set().union(*(each for each in known if each)) if all(known) else None
    return None


def _only_constant(found: Origins) -> set[str] | None:
    """The literal that a name stands for, such as a parameter that only ever has its default; None where there are others."""
    return {found[0].text} if len(found) == 1 and found[0].kind is Kind.CONSTANT else None


def _of_world(operator: ast.cmpop, found: Origins) -> set[str] | None:
    """The number of one rank that a world size gives: `rank == world_size - 1`."""
    sizes = bool(found) and all(one.kind in _NUMBERS_OF_RANKS for one in found)
    return {one.text for one in found} if sizes and isinstance(operator, ast.Eq | ast.NotEq) else None


def _which(operator: ast.cmpop, constant: set[str] | None) -> str:
    if constant is None:
        return ""
    if isinstance(operator, ast.Eq | ast.In):
        return "first"
    if isinstance(operator, ast.NotEq | ast.NotIn | ast.Gt):
        return "others"
    return "first" if isinstance(operator, ast.LtE | ast.Lt) else ""


def either_or_both(values: Values, node: ast.BoolOp, at: At) -> Iterator[Origin]:
    """What `a and b` or `a or b` depends on."""
    for origins in _tested(values, node, node.values, at):
        for origin in truth(origins) if isinstance(node.op, ast.And) else origins:
            if origin.kind in RANK_KINDS and origin.kind is not Kind.RANK:
                yield replace(origin, kind=Kind.RANK, note="others")  # a number is true where it is not 0
            elif origin.kind is Kind.SOME_RANKS:
                yield replace(origin, kind=Kind.RANK)
            elif origin.kind in TAINTS:
                yield origin
            elif isinstance(node.op, ast.Or) or origin.kind is Kind.FUNCTION:
                yield origin  # `x or default`


def _tested(values: Values, node: ast.BoolOp, parts: list[ast.expr], at: At) -> Iterator[Iterable[Origin]]:
    """What each part can be; `m == "a" or m == "b"` is one part, as `m in ("a", "b")` is."""
    operator, together = (ast.Eq, ast.In()) if isinstance(node.op, ast.Or) else (ast.NotEq, ast.NotIn())
    listed = grouped(
        (dotted(part.left), part)
        for part in parts
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], operator)
    )
    for part in parts:
        alike = listed.get(dotted(part.left), []) if isinstance(part, ast.Compare) and dotted(part.left) else []
        if part not in alike or len(alike) == 1 or not any(any(one.members) for one in values.of(alike[0].left, at)):
            yield values.of(part, at)
        elif part is alike[0]:
            of_all = ast.Tuple(elts=[one.comparators[0] for one in alike], ctx=ast.Load())
            in_all = ast.Compare(left=alike[0].left, ops=[together], comparators=[of_all])
            yield tuple(compared(values, in_all, [alike[0].left, of_all], at))


def negated(origin: Origin) -> Origin:
    """The same under `not`."""
    if origin.kind is Kind.SOME_RANKS:
        return replace(origin, kind=Kind.RANK, note=_others(origin))
    if origin.kind is not Kind.RANK and origin.kind not in RANK_KINDS:
        return origin
    note = {"first": "others", "others": "first", "uncertain": "uncertain"}.get(origin.note, "first")
    return replace(origin, kind=Kind.RANK, note=note)


def held_by(test: Origins, *, inverted: bool) -> Iterator[Origin]:
    """That an object is had by the ranks that pass a test, and is None on the others; or the other way round."""
    for origin in truth(test):
        if origin.kind in RANK_KINDS and origin.note != "uncertain":
            note = origin.note if origin.note in FLIPPED else ""
            yield replace(origin, kind=Kind.SOME_RANKS, note=FLIPPED.get(note, "") if inverted else note)


def given_to_some(values: Values, returns: Sequence[Alternative]) -> Iterator[Origin]:
    """That a function gives an object to some ranks, and None to the others: `if rank != 0: return None`, or no `return`."""
    nothing = [one for one in returns if one.value is None or is_none(one.value)]
    given = [one for one in returns if one not in nothing]
    if not given or any(isinstance(one.value, ast.Constant) for one in given):
        return
    for some, inverted in ((given, False), (nothing, True)):
        around = [[test for at in one.block.chain() for test in rank_tests(values, at, one.scope)] for one in some]
        if some and all(around) and len({tests[0].note for tests in around}) == 1:
            yield from held_by(tuple(around[0][:1]), inverted=inverted)
            return


def chosen(values: Values, test: ast.expr, body: ast.expr, orelse: ast.expr, at: At) -> Iterator[Origin]:
    """What `body if test else orelse` can be."""
    inside = [origin for origin in values.of(body, at) if origin.kind is Kind.BARE]
    if inside and _unwrapped(body, orelse):
        yield from inside
        return
    branches = [(part, values.of(part, at)) for part in (body, orelse)]
    known = [origin for _, found in branches for origin in found]
    yield from known
    yield from or_unknown(known, [part for part, found in branches if not found])
    if _is_nothing(body) != _is_nothing(orelse):
        yield from held_by(values.of(test, at), inverted=_is_nothing(body))
    if (isinstance(body, ast.Constant) or isinstance(orelse, ast.Constant)) and not (is_none(body) or is_none(orelse)):
        tested = values.of(test, at)  # `0 if score > best else bad + 1`
        shared = [origin for origin in tested if origin.kind is Kind.SHARED]
        yield from shared or [origin for origin in tested if origin.kind is Kind.LOCAL]
    there, otherwise = label(values, body, at), label(values, orelse, at)
    if there and otherwise and there != otherwise:
        for origin in truth(values.of(test, at)):
            if origin.kind in RANK_KINDS and origin.note != "uncertain":
                yield chosen_by(replace(origin, kind=Kind.RANK), there, otherwise)
            elif origin.kind in RANK_KINDS or origin.kind is Kind.LOCAL:
                yield origin


def _is_nothing(node: ast.expr) -> bool:
    """Whether it is None or an empty text."""
    return is_none(node) or (isinstance(node, ast.Constant) and node.value == "")


def _unwrapped(body: ast.expr, orelse: ast.expr) -> bool:
    """Whether it is `model.module if ... else model`: of a model that is wrapped it is always what is inside."""
    return isinstance(body, ast.Attribute) and body.attr == "module" and dotted(body.value) == dotted(orelse) != ""
