"""What a name can hold at a place: assignments that reach it, what callers give for a parameter, what an import means."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.chosen_values import chosen
from ddpdoctor.source.dataflow.decided_branches import reached
from ddpdoctor.source.dataflow.origins import At, Origins, joined, note_of, or_unknown
from ddpdoctor.source.dataflow.parameters import parameter_of, rest_of
from ddpdoctor.source.dataflow.reaching_definitions import END, reaching
from ddpdoctor.source.dataflow.returned_values import uncalled
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.syntax.scopes import Definition, Scope


def held_under(values: Values, key: str, at: At) -> Origins:
    """What a name, or a dotted name that is assigned to in this function, can hold."""
    scope: Scope | None = at.scope
    order, block = at.order, at.block
    found: list[Origin] = []
    while scope is not None:
        definitions = scope.definitions.get(key)
        if definitions and (scope is at.scope or not scope.is_class):
            possible, always = reaching(reached(values, definitions, scope), order, block)
            from_functions = values.index.from_functions.get((scope.file, key), ()) if scope.parent is None else ()
            if always and len(possible) == 1 and not from_functions and not found:
                return values.defined(key, possible[0], scope)
            found += _by_definitions(values, key, possible, scope, found)
            for function, definition in from_functions:
                found += values.defined(key, definition, function)
            if always:
                return joined(found)
        if key in scope.parameters:
            return joined([*found, *parameter_of(values, scope, key)])
        if (rest := rest_of(values, scope, key)) is not None:
            return joined([*found, *rest])
        if key in scope.imports:
            return joined([*found, *_imported(values, key, scope)])
        if scope is at.scope and key not in scope.globals and scope.parent is not None and _binds(definitions):
            break
        scope, order = scope.parent, END
        block = scope.root if scope is not None else block
    if not found and scope is None:
        return _imported(values, key, at.scope)
    return joined(found)


def _by_definitions(
    values: Values, key: str, possible: list[Definition], scope: Scope, before: list[Origin]
) -> list[Origin]:
    """What the assignments of one function that reach a place give a name, of which `before` is known already."""
    found: list[Origin] = []
    unknown: list[ast.expr | None] = []
    in_order = max((one.order for one in possible if one.form == "sorted"), default=-1)
    for definition in possible:
        given = values.defined(key, definition, scope)
        if not given and definition.form == "assign" and not definition.index:
            unknown.append(definition.value)
        if in_order > definition.order:
            given = tuple(one for one in given if one.kind is not Kind.UNORDERED)
        found += given
    found += or_unknown([*before, *found], unknown)
    found += chosen(values, [(scope, definition) for definition in possible])
    return found


def _imported(values: Values, key: str, scope: Scope) -> Origins:
    meant = values.project.resolve(scope, key)
    if isinstance(meant, tuple):
        module, name = meant
        return held_under(values, name, At(module, END, module.root)) if module is not scope else ()
    if isinstance(meant, Scope) and not meant.is_class:
        return (uncalled(values, meant, meant.name),)
    if isinstance(meant, str) and meant.startswith(names.DIST_OF_OTHERS) and note_of(key) == "first":
        return (Origin(kind=Kind.FUNCTION, text=key, note="tests the rank"),)  # `is_main_process` of mmengine
    return ()


def _binds(definitions: Iterable[Definition] | None) -> bool:
    """Whether a function makes a name its own: `scaler.update()` and `seen["x"] = 1` change what stands around it."""
    return any(one.form not in {"change", "sorted", "shared"} for one in definitions or ())
