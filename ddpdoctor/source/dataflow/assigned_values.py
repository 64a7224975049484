"""What an assignment gives a name: also of loops, `with`, unpacking, `+=`, and calls that change their argument."""

from __future__ import annotations

import ast
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Link, Origin
from ddpdoctor.source.dataflow.conditions import held_by
from ddpdoctor.source.dataflow.iteration import item_of
from ddpdoctor.source.dataflow.lengths import grown
from ddpdoctor.source.dataflow.origins import QUIET, At, Origins, joined, with_link
from ddpdoctor.source.dataflow.returned_values import uncalled
from ddpdoctor.source.dataflow.unpacking import part_of
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.syntax.scopes import Block, Definition, Scope

_SIZES = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT})
_SIGNS = {"for": "in", "augment": "+=", "with": "from", "change": "takes"}
"""How a step of a chain is written, by the form of the definition; `=` for all others."""
_SCALES = {"Div": "divides", "Mult": "multiplies"}
_KEPT_IN_LISTS = frozenset({Kind.LOCAL, Kind.SHARED, Kind.CPU_TENSOR})


def given_by(values: Values, key: str, definition: Definition, scope: Scope) -> Origins:
    """What one assignment gives a name."""
    if definition.form == "def":
        named = scope.functions.get(key)
        return (uncalled(values, named, key),) if named is not None else ()
    if definition.form == "sorted":
        return ()
    if definition.form == "shared":
        return (Origin(kind=Kind.SHARED, text=values.text(definition.value, scope)),)
    at = At(scope, definition.order, definition.block)
    if definition.value is None:
        return ()
    found = _entered(values, definition.value, at) if definition.form == "with" else values.of(definition.value, at)
    if definition.index or definition.form == "for":
        found = _element(values, found, definition, at)
    if definition.form in {"change", "augment"}:
        found = _changed(values, found, key, definition, scope)
    elif isinstance(definition.value, ast.Constant) and definition.block.form in {"if", "else"}:
        found += _decided(values, definition.block, scope)
    elif definition.block.form in {"if", "else"} and definition.form == "assign":
        found += _had_by_some(values, key, definition, scope)
    return _linked(values, found, key, definition, scope)


def _changed(values: Values, found: Origins, key: str, definition: Definition, scope: Scope) -> Origins:
    """What `key += found`, or a call such as `key.append(found)`, adds to a name."""
    note = _SCALES.get(definition.operator, "")
    sized = (replace(one, note=note) for one in found if note and one.kind in _SIZES and not one.note)
    kept = (one for one in found if one.kind in _KEPT_IN_LISTS or one.note == "drawn")
    is_count = isinstance(definition.value, ast.Constant)
    added: list[Origin] = [*sized, *kept]
    if definition.form == "augment":
        ranks = (one for one in found if one.kind in RANK_KINDS and one.note != "uncertain")
        added += (replace(one, kind=Kind.RANK, note="") for one in ranks)
        if is_count:
            added.append(Origin(kind=Kind.UNKNOWN, text=key))
    if definition.form == "augment" or is_count:
        added += _decided(values, definition.block, scope)
    if definition.form == "change" or _begins_as_list(scope.definitions[key][0]):
        added += grown(values, definition, scope)
    return tuple(added)


def _begins_as_list(first: Definition) -> bool:
    """Whether what a name is given first is a list that is written out: `rows = []`."""
    return isinstance(first.value, ast.List) and first.form == "assign"


def _had_by_some(values: Values, key: str, definition: Definition, scope: Scope) -> Origins:
    """The test of the rank that decides whether a name holds an object, where it holds None else."""
    if not values.functions.gives_none(scope, key):
        return ()
    block = definition.block
    test = values.of(block.test, At(scope, block.order, block.parent or block))
    return tuple(held_by(test, inverted=block.form == "else"))


def _entered(values: Values, node: ast.expr, at: At) -> Origins:
    """What `with node as name` gives: of a generator of the program what it yields, else the object itself."""
    target = values.meaning(node, at).target if isinstance(node, ast.Call) else None
    if not isinstance(target, Scope) or not target.yields or target.is_class:
        return values.of(node, at)
    return joined(
        origin for value, order, block in target.yields for origin in values.of(value, At(target, order + 1, block))
    )


def _decided(values: Values, block: Block, scope: Scope) -> Origins:
    """The local values that decide whether a block is run: what is counted there differs between ranks as well."""
    if block.form not in {"if", "else", "case"} or block.test is None:
        return ()
    found = values.of(block.test, At(scope, block.order, block.parent or block))
    if any(origin.kind is Kind.SHARED for origin in found):
        return tuple(origin for origin in found if origin.kind is Kind.SHARED)
    file, line = values.project.sources[scope.file].place(block.test.lineno)
    link = Link(text=f"if {values.text(block.test, scope)}", file=file, line=line)
    return with_link((origin for origin in found if origin.kind is Kind.LOCAL), link)


def _element(values: Values, found: Origins, definition: Definition, at: At) -> Origins:
    """What one target gets when a value is unpacked or gone over."""
    node = definition.value
    assert node is not None
    if definition.form == "for":
        return item_of(values, node, definition.index, at)
    return part_of(values, node, found, definition.index, at)


def _linked(values: Values, found: Origins, key: str, definition: Definition, scope: Scope) -> Origins:
    """The alternatives with one more step in their chains: this assignment."""
    for origin in found:
        if origin.kind not in QUIET:
            break
    else:
        return found
    file, line = values.project.sources[scope.file].place(definition.line)
    shown = values.text(definition.value, scope)
    link = Link(text=f"{key} {_SIGNS.get(definition.form, '=')} {shown}", file=file, line=line)
    return with_link(found, link)
