"""Names and results that hold one constant or another by a test of the rank: `True` in one branch, `False` in the other."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.origins import FLIPPED, At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.classes import class_meant
from ddpdoctor.source.syntax.scopes import Block, Definition, Scope

MOST = 6  # alternatives of one name that are looked at
MOST_CHANGES = 8  # assignments to one number that are looked at
_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.eq, ast.IsNot: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the values that a name or a result gets by a test."""

    value: ast.expr | None
    """The expression; None for a name without a value, and a `return` of nothing."""
    block: Block
    """The block that gives it."""
    scope: Scope
    """The function or module that the block is a part of."""


@dataclass(frozen=True, slots=True)
class ClassMember:
    """A member of a class of the program. It has no order, and equals itself alone."""

    name: str
    """As it is written, `Color.RED`."""


def by_branches(values: Values, alternatives: Sequence[Alternative]) -> Iterator[Origin]:
    """The test of the rank that decides which of several constants it is, where one decides."""
    if not 1 < len(alternatives) <= MOST:
        return
    labels = [label(values, one.value, At(one.scope, one.block.order, one.block)) for one in alternatives]
    for mine, one in zip(labels, alternatives, strict=True):
        other = next((its for its in labels if its and its != mine), "")
        if mine and other and one.block.form in {"if", "else", "case"}:
            for test in rank_tests(values, one.block, one.scope):
                yield chosen_by(test, mine, other)


def flag_of_some(values: Values, alternatives: Sequence[Alternative]) -> Iterator[Origin]:
    """The test of the rank under which alone a name gets a value, where it is False else: `if rank == 0: stop = late()`.

    Nothing where a rank may be told the value: one of the alternatives is the result of a collective.
    """
    if not 1 < len(alternatives) <= MOST:
        return
    unset = [one for one in alternatives if isinstance(one.value, ast.Constant) and one.value.value is False]
    given = [one for one in alternatives if one.value is not None and not isinstance(one.value, ast.Constant)]
    if not unset or len(unset) + len(given) != len(alternatives):
        return
    for one in given:
        found = values.of(one.value, At(one.scope, one.block.order, one.block)) if one.value is not None else ()
        if any(origin.kind is Kind.SHARED for origin in found):
            return
    around = [[block for block in one.block.chain() if block not in unset[0].block.chain()] for one in given]
    tests = [
        [test for block in blocks for test in rank_tests(values, block, one.scope)]
        for one, blocks in zip(given, around, strict=True)
    ]
    if all(tests):
        yield from (test for found in tests for test in found[:1])


def counted_by_some(values: Values, possible: Sequence[tuple[Scope, Definition]]) -> Iterator[Origin]:
    """The test of the rank under which alone a number changes that begins alike on all ranks: `if rank == 0: late += 1`.

    Nothing where a rank may be told the number by a collective.
    """
    if not 1 < len(possible) <= MOST_CHANGES:
        return
    tests = [
        [test for block in one.block.chain() for test in rank_tests(values, block, scope) if test.note == "first"]
        for scope, one in possible
    ]
    begins = [one for (_, one), found in zip(possible, tests, strict=True) if not found]
    if not begins or not all(one.form == "assign" and _is_number(one.value) for one in begins):
        return
    given = [each for each, found in zip(possible, tests, strict=True) if found]
    if not any(one.form == "augment" for _, one in given) or any(one.form == "shared" for _, one in given):
        return
    if not any(origin.kind is Kind.SHARED for scope, one in given for origin in _given(values, scope, one)):
        yield replace(next(found[0] for found in tests if found), note="counted")


def _given(values: Values, scope: Scope, one: Definition) -> Iterable[Origin]:
    return values.of(one.value, At(scope, one.order, one.block))


def _is_number(node: ast.expr | None) -> bool:
    """Whether an expression is a number that is written out."""
    operand = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(operand, ast.Constant) and isinstance(operand.value, int | float)


def label(values: Values, node: ast.expr | None, at: At) -> str:
    """A constant or a member of a class of the program, as a word; empty for anything else."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    return dotted(node).rpartition(".")[2] if node is not None and is_member(values, node, at) else ""


def is_member(values: Values, node: ast.expr, at: At) -> bool:
    """Whether an expression is `Role.LEADER` of a class of the program, in its own methods also `cls.LEADER`."""
    if not isinstance(node, ast.Attribute):
        return False
    cls = (
        at.scope.of_class
        if dotted(node.value) in {"self", "cls"}
        else class_meant(values.project, node.value, at.scope)
    )
    return cls is not None and node.attr in cls.definitions


def chosen_by(test: Origin, there: str, otherwise: str) -> Origin:
    """A test of the rank by what it leads to: a test itself where that is true or false, else a choice of two members."""
    if bool(_held(there)) != bool(_held(otherwise)):
        return replace(test, note=test.note if _held(there) else FLIPPED.get(test.note, ""))
    return replace(test, members=(there, otherwise))


def truth(origins: Iterable[Origin]) -> Iterator[Origin]:
    """What a test of the truth of a value depends on: not on the choice of two members, as both are true, or both false."""
    return (origin for origin in origins if not any(origin.members))


def by_comparison(
    values: Values, origin: Origin, compared: ast.cmpop, other: ast.expr, at: At, *, left: bool
) -> Iterator[Origin]:
    """The test of the rank where a comparison tells the two members of a choice apart.

    Nothing where it holds for both or for neither. It is uncertain where the other side is not written out.
    """
    known = _written(values, other, at)
    outcomes = [_holds(compared, _held(one), known, left=left) for one in origin.members]
    if None in outcomes:
        yield replace(origin, note="uncertain", members=("", ""))
    elif outcomes[0] != outcomes[1]:
        yield replace(origin, note=origin.note if outcomes[0] else FLIPPED.get(origin.note, ""), members=("", ""))


def _holds(compared: ast.cmpop, member: object, other: tuple[object] | None, *, left: bool) -> bool | None:
    """Whether a comparison of a member with another value holds; None where that is not known."""
    if other is None:
        return None
    try:
        return bool(_OPERATORS[type(compared)](*((member, other[0]) if left else (other[0], member))))
    except TypeError:
        return None


def _held(text: str) -> object:
    """The constant or member that a label stands for."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ClassMember(text)


def _written(values: Values, node: ast.expr, at: At) -> tuple[object] | None:
    """The value of an expression of constants and members; None of any other."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = [_written(values, part, at) for part in node.elts]
        return None if None in parts else (tuple(part[0] for part in parts if part is not None),)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return (-value,) if isinstance(value, int | float) else None
    word = label(values, node, at)
    return (_held(word),) if word else None


def rank_tests(values: Values, block: Block, scope: Scope) -> Iterator[Origin]:
    """The rank that decides whether a block is run, noted with the ranks that run it."""
    at = At(scope, block.order, block.parent or block)
    found = values.of(block.test, at) if block.test is not None else ()
    for origin in truth(found):
        if origin.kind not in RANK_KINDS or origin.note == "uncertain":
            continue
        note = origin.note if origin.note in FLIPPED else ""
        yield replace(origin, kind=Kind.RANK, note=FLIPPED.get(note, "") if block.form == "else" else note)


def chosen(values: Values, definitions: Sequence[tuple[Scope, Definition]]) -> Iterable[Origin]:
    """The test of the rank that decides which constant of several assignments a name holds."""
    given = [
        Alternative(one.value, one.block, scope) for scope, one in definitions if one.form == "assign" and not one.index
    ]
    counted = counted_by_some(values, definitions) if len(definitions) > 1 else ()
    return (*by_branches(values, given), *flag_of_some(values, given), *counted) if len(given) > 1 else tuple(counted)
