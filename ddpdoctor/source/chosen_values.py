"""Names and results that hold one constant or another by a test of the rank: `True` in one branch, `False` in the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddpdoctor.evidence.training_code import RANK_KINDS, Kind, Origin
from ddpdoctor.source.attribute_access import class_meant
from ddpdoctor.source.origins import FLIPPED, At
from ddpdoctor.source.scopes import Block, Scope
from ddpdoctor.source.walk import dotted

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values

MOST = 6  # alternatives of one name that are looked at
_FALSE = frozenset({"False", "None", "0", "''"})


@dataclass(frozen=True, slots=True)
class Alternative:
    """One constant that is given, and the block that gives it."""

    value: ast.expr | None
    block: Block
    scope: Scope


def by_branches(values: Values, alternatives: Sequence[Alternative]) -> Iterator[Origin]:
    """The test of the rank that decides which of several constants it is, where one decides."""
    if not 1 < len(alternatives) <= MOST:
        return
    labels = [label(values, one.value, At(one.scope, one.block.order, one.block)) for one in alternatives]
    for mine, one in zip(labels, alternatives, strict=True):
        other = next((its for its in labels if its and its != mine), "")
        if mine and other and one.block.form in {"if", "else", "case"}:
            for test in _test(values, one.block, one.scope):
                yield told_apart(test, mine, other)


def label(values: Values, node: ast.expr | None, at: At) -> str:
    """A constant or a member of a class of the program, as a word; empty for anything else."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    return dotted(node).rpartition(".")[2] if node is not None and is_member(values, node, at) else ""


def is_member(values: Values, node: ast.expr, at: At) -> bool:
    """Whether an expression is `Role.LEADER` of a class of the program, in its own methods also `cls.LEADER`."""
    if not isinstance(node, ast.Attribute):
        return False
    cls = at.scope.of_class if dotted(node.value) in {"self", "cls"} else class_meant(values, node.value, at)
    return cls is not None and node.attr in cls.definitions


def told_apart(test: Origin, there: str, otherwise: str) -> Origin:
    """A test of the rank by what it leads to: a test itself where that is true or false, else a choice of two members."""
    if (there in _FALSE) != (otherwise in _FALSE):
        return replace(test, note=FLIPPED.get(test.note, "") if there in _FALSE else test.note)
    return replace(test, members=(there, otherwise))


def _test(values: Values, block: Block, scope: Scope) -> Iterator[Origin]:
    """The rank that decides whether a block is run, noted with the ranks that run it."""
    at = At(scope, block.order, block.parent or block)
    for origin in values.of(block.test, at) if block.test is not None else ():
        if origin.kind not in RANK_KINDS or origin.note == "uncertain":
            continue
        note = _of_case(block) if block.form == "case" else origin.note if origin.note in FLIPPED else ""
        yield replace(origin, kind=Kind.RANK, note=FLIPPED.get(note, "") if block.form == "else" else note)


def _of_case(block: Block) -> str:
    cases: list[ast.match_case] = getattr(block.node, "cases", [])
    pattern = cases[block.branch].pattern if block.branch < len(cases) else None
    if isinstance(pattern, ast.MatchValue | ast.MatchSingleton):
        return "first"
    return "others" if isinstance(pattern, ast.MatchAs) and pattern.pattern is None else ""
