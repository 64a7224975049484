"""Functions of the program that a variable stands for, one after the other.

They stand in a list that a loop goes over and calls: `for handler in HANDLERS["epoch_end"]: handler(state)`. Or several callers
give them: `run_on_main(save)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.literals import known_literal
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import items_of, only_value
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope

MOST_LISTED = 24  # functions in one list
MOST_HOPS = 4  # names from a loop to where its list is written


def functions_of_each(values: Values, node: ast.Call, at: At) -> Iterator[Scope]:
    """The functions that a call of a loop's variable stands for: those that stand in its list where it is written."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    given = at.scope.definitions.get(name, ()) if name else ()
    if len(given) != 1 or given[0].form != "for" or given[0].index or given[0].value is None:
        return
    found = _written(values, given[0].value, At(at.scope, given[0].order, given[0].block))
    for each in found[0].elts[:MOST_LISTED] if found is not None else ():
        meant = values.index.target(found[1].scope, dotted(each)) if found is not None and dotted(each) else None
        if meant is not None and not meant.is_class:
            yield meant


def functions_given(values: Values, node: ast.Call, at: At) -> Iterator[Scope]:
    """The functions that callers give for the parameter that a call calls, as far as they are known."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in at.scope.parameters or name in at.scope.definitions:
        return
    for made in dict.fromkeys(one.made for one in values.of(node.func, at) if one.kind is Kind.FUNCTION):
        if (function := values.code.function_named(made)) is not None:
            yield function


def _written(values: Values, node: ast.expr, at: At) -> tuple[ast.List | ast.Tuple, At] | None:
    """The list that an expression is, under one name or in a dict that is written out; None where it may be another."""
    for _ in range(MOST_HOPS):
        if isinstance(node, ast.List | ast.Tuple):
            return node, at
        found = None
        if isinstance(node, ast.Name | ast.Attribute):
            found = only_value(values, node, at)
        elif isinstance(node, ast.Subscript):
            key = known_literal(values, node.slice, at)
            items = items_of(values, node.value, at) if key is not None else None
            found = items.get(str(key.value)) if items is not None and key is not None else None
        if found is None:
            return None
        node, at = found
    return None


def method_asked_for(values: Values, node: ast.Call, at: At) -> ast.Attribute | None:
    """The method that a call names, also by `getattr(hook, "epoch_end")(state)`; None where it names none."""
    func = node.func
    if isinstance(func, ast.Call) and dotted(func.func) == "getattr" and len(func.args) > 1:
        key = known_literal(values, func.args[1], at)
        if key is not None and isinstance(key.value, str):
            return ast.Attribute(value=func.args[0], attr=key.value, ctx=ast.Load())
    return func if isinstance(func, ast.Attribute) else None
