"""The cases of a `match` as comparisons: `case 0 | 1` is `subject in (0, 1)`, and `case _` is none of those before it."""

from __future__ import annotations

import ast


def as_comparison(node: ast.Match, branch: int) -> ast.expr:
    """The test by which a case is chosen: True of one that is always; the subject where the pattern does more than compare."""
    case = node.cases[branch]
    mine = _values(case.pattern)
    if mine and case.guard is None:
        return _compared(node.subject, mine, inverted=False)
    rest = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
    if rest and case.guard is None and not branch:
        return ast.copy_location(ast.Constant(value=True), node.subject)
    before = [_values(one.pattern) for one in node.cases[:branch] if one.guard is None]
    if not rest or not before or not all(before):
        return node.subject
    return _compared(node.subject, [value for values in before for value in values], inverted=True)


def _values(pattern: ast.pattern) -> list[ast.expr]:
    """The values that a pattern compares with; none where it does anything else."""
    if isinstance(pattern, ast.MatchOr):
        found = [_values(one) for one in pattern.patterns]
        return [value for values in found for value in values] if all(found) else []
    if isinstance(pattern, ast.MatchSingleton):
        return [ast.copy_location(ast.Constant(value=pattern.value), pattern)]
    return [pattern.value] if isinstance(pattern, ast.MatchValue) else []


def _compared(subject: ast.expr, values: list[ast.expr], *, inverted: bool) -> ast.expr:
    """The comparison; it stands where the subject does, so that it is shown as the subject is written."""
    if len(values) == 1:
        made = ast.Compare(left=subject, ops=[ast.NotEq() if inverted else ast.Eq()], comparators=values)
    else:
        listed = ast.copy_location(ast.Tuple(elts=values, ctx=ast.Load()), subject)
        made = ast.Compare(left=subject, ops=[ast.NotIn() if inverted else ast.In()], comparators=[listed])
    return ast.copy_location(made, subject)
