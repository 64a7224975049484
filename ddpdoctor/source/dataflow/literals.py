"""Which literal an expression holds, and which way a test goes, where the program leaves no doubt of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.callers import has_unknown, position_of
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.program.index import given_at
from ddpdoctor.source.syntax.scopes import Scope

DEEPEST = 8  # `not` and `and` within each other, and names and callers on the way to a literal
_KEEP_ARGUMENTS = frozenset({"staticmethod", "classmethod"})


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal that an expression holds."""

    value: object
    """What `ast.literal_eval` gives for it; a wrapper keeps a literal `None` apart from no literal."""


def known_literal(values: Values, node: ast.expr, at: At) -> Literal | None:
    """The only literal that is known for an expression, such as the key of a table; None of anything else."""
    if isinstance(node, ast.Constant):
        return Literal(node.value)
    if isinstance(node, ast.JoinedStr):
        return _of_text(values, node, at)
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return None
    found = values.of(node, at)
    if len(found) != 1 or found[0].kind is not Kind.CONSTANT:
        return None
    try:
        return Literal(ast.literal_eval(found[0].text))
    except (ValueError, SyntaxError):
        return None


def _of_text(values: Values, node: ast.JoinedStr, at: At) -> Literal | None:
    """The text of a formatted string whose parts are known: `f"SLURM_{key}"` for a key."""
    parts = (one.value if isinstance(one, ast.FormattedValue) and not one.format_spec else one for one in node.values)
    known = [known_literal(values, one, at) if not isinstance(one, ast.FormattedValue) else None for one in parts]
    return Literal("".join(str(one.value) for one in known if one is not None)) if None not in known else None


def default_literal(values: Values, node: ast.expr, at: At) -> Literal | None:
    """The only literal that is known for an expression, also where a command-line option may give another one."""
    if (found := known_literal(values, node, at)) is not None:
        return found
    origins = values.of(node, at) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ()
    fixed = [one for one in origins if one.kind is Kind.CONSTANT]
    if len(fixed) != 1 or any(one.note != "argument" for one in origins if one is not fixed[0]):
        return None
    try:
        return Literal(ast.literal_eval(fixed[0].text))
    except (ValueError, SyntaxError):
        return None


def literal(values: Values, node: ast.expr, at: At, depth: int = DEEPEST) -> Literal | None:
    """The literal that an expression holds in the call by which its function is looked at, whatever else the program does.

    A name holds one as a parameter that the call gives as a literal, or as a local variable with one definition. Neither
    may be bound again. None of attributes, items and results of calls, which other code can change.
    """
    match node:
        case ast.Constant(value=value):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return Literal(-number)
        case ast.Name(id=name) if depth:
            return _of_name(values, name, at.scope, depth - 1)
        case ast.IfExp(test=test, body=body, orelse=orelse) if depth:
            decided = decided_by(values, test, at, depth - 1)
            return None if decided is None else literal(values, body if decided else orelse, at, depth - 1)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) if depth:
            decided = decided_by(values, node, at, depth - 1)
            return Literal(decided) if decided is not None and not isinstance(node, ast.BoolOp) else None
    return None


def _of_name(values: Values, name: str, scope: Scope, depth: int) -> Literal | None:
    if values.context_in(scope) is None:
        return None
    bound = values.functions.bindings(scope)[name]
    if name in scope.parameters:
        return _given(values, scope, name, depth) if not bound else None
    definitions = scope.definitions.get(name, [])
    if bound != 1 or len(definitions) != 1:
        return None
    only = definitions[0]
    if only.form != "assign" or only.index or only.value is None:
        return None
    return literal(values, only.value, At(scope, only.order, only.block), depth)


def _given(values: Values, scope: Scope, name: str, depth: int) -> Literal | None:
    """The literal that the call gives for a parameter: itself, or by leaving the default."""
    context = values.context_in(scope)
    assert context is not None
    site = context.site
    given = given_at(site, name, position_of(scope, name))
    if given is not None:
        at = At(site.caller, site.call.order, site.call.block)
        return values.within(context.parent, lambda: literal(values, given, at, depth))
    default = scope.defaults.get(name)
    plain = all(isinstance(one, ast.Name) and one.id in _KEEP_ARGUMENTS for one in scope.decorators)
    if default is None or has_unknown(site) or not plain:
        return None
    return literal(values, default, At(scope, 0, scope.root), depth) if not isinstance(default, ast.Name) else None


def decided_by(values: Values, test: ast.expr, at: At, depth: int = DEEPEST) -> bool | None:
    """Whether a test holds; None where its literals do not say so."""
    if not depth:
        return None
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided_by(values, operand, at, depth - 1)
            return None if inner is None else not inner
        case ast.BoolOp(op=operator, values=parts):
            known = [decided_by(values, part, at, depth - 1) for part in parts]
            ends = isinstance(operator, ast.Or)  # of `or` a part that holds decides, of `and` one that does not
            if ends in known:
                return ends
            return None if None in known else not ends
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compared(values, left, operator, right, at, depth)
        case ast.Compare():
            return None
    held = literal(values, test, at, depth)
    return None if held is None else bool(held.value)


def _compared(values: Values, left: ast.expr, operator: ast.cmpop, right: ast.expr, at: At, depth: int) -> bool | None:
    mine = literal(values, left, at, depth - 1)
    if mine is None:
        return None
    if isinstance(operator, ast.In | ast.NotIn):
        listed = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
        theirs = [literal(values, part, at, depth - 1) for part in listed]
        if not theirs or None in theirs:
            return None
        return (mine in theirs) is isinstance(operator, ast.In)
    other = literal(values, right, at, depth - 1)
    if other is None or not isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return None
    same = mine == other
    if isinstance(operator, ast.Is | ast.IsNot):  # `0 is False` does not hold, though both are equal
        same = same and type(mine.value) is type(other.value)
    return same is isinstance(operator, ast.Eq | ast.Is)
