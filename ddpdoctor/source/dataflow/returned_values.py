"""What a function of the program gives back, and what it stands for where it is not called."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ddpdoctor.evidence.code_values import Kind, Link, Origin
from ddpdoctor.source.dataflow.chosen_values import Alternative, by_branches
from ddpdoctor.source.dataflow.conditions import given_to_some
from ddpdoctor.source.dataflow.decided_branches import alive
from ddpdoctor.source.dataflow.origins import MOST_STEPS, At, Origins, note_of, with_link
from ddpdoctor.source.dataflow.single_objects import SingleObject
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.program.calling_contexts import CallingContext
from ddpdoctor.source.syntax.scopes import Scope


def returned(
    values: Values, function: Scope, context: CallingContext | None = None, single: SingleObject | None = None
) -> Origins:
    """What a function of the program gives back, by one call of it or of one object where these are given."""
    return values.once((id(function), "return"), context, single, _returned, values, function)


def uncalled(values: Values, function: Scope, name: str) -> Origin:
    """A function that is not called; noted where it would answer with a test of the rank."""
    tests = (one for one in returned(values, function) if one.kind is Kind.RANK and one.note in {"first", "others"})
    note = "tests the rank" if next(tests, None) is not None else ""
    return Origin(kind=Kind.FUNCTION, text=name, made=function.id, note=note)


def _returned(values: Values, function: Scope) -> Origins:
    found = tuple(
        origin
        for value, order, block in alive(values, function)
        for origin in _given_back(values, value, At(function, order + 1, block))
    )
    returns = [Alternative(value, block, function) for value, _, block in alive(values, function)]
    found += (*by_branches(values, returns), *given_to_some(values, returns))
    if not found and function.name in rank_names.RANK_CALLS:
        kind = rank_names.RANK_CALLS[function.name]
        return (Origin(kind=kind, text=f"{function.name}()", note=note_of(function.name)),)
    return found


def _given_back(values: Values, value: ast.expr, at: At) -> Iterable[Origin]:
    """What a `return` gives; that it compares a clock is one more step of its chain."""
    for origin in values.of(value, at):
        if origin.note == "clock" and isinstance(value, ast.Compare) and len(origin.why) <= MOST_STEPS:
            file, line = values.project.sources[at.scope.file].place(value.lineno)
            link = Link(text=f"{at.scope.name}() returns {values.text(value, at.scope)}", file=file, line=line)
            yield from with_link([origin], link)
        else:
            yield origin
