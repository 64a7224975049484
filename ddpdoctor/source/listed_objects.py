"""Objects of the program's classes in a list that a loop goes over: callbacks, hooks, stages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddpdoctor.evidence.training_code import Kind
from ddpdoctor.source.attribute_access import class_named
from ddpdoctor.source.origins import At, Origins, without_context
from ddpdoctor.source.scopes import RawCall, Scope

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values


def listed(values: Values, over: Origins) -> Origins:
    """The objects in a list that holds nothing else: `[Checkpoint(), EarlyStopping()]`."""
    classes = [class_named(values, one.note) if one.kind is Kind.INSTANCE else None for one in over]
    goes_over = ("__iter__", "__getitem__")
    if any(cls is None or any(values.project.method(cls, name) for name in goes_over) for cls in classes):
        return ()
    return over


def methods_of_each(values: Values, node: ast.Call, at: At) -> Iterator[tuple[Scope, Scope, RawCall]]:
    """The methods that a call of a loop's variable stands for, and the calls that make their objects, with the function."""
    func = node.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return
    if not any(one.form == "for" for one in at.scope.definitions.get(func.value.id, ())):
        return
    for origin in listed(values, values.of(func.value, at)):
        cls = class_named(values, origin.note)
        method = values.project.method(cls, func.attr) if cls is not None else None
        for scope, made in values.index.constructions.get(id(cls), ()) if method is not None else ():
            if method is not None and without_context(values.where(made.node, scope)) == without_context(origin.made):
                yield method, scope, made
