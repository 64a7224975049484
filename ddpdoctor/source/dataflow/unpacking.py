"""What each target gets when a value is unpacked."""

from __future__ import annotations

import ast

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.call_results import returned_part
from ddpdoctor.source.dataflow.object_attributes import attribute_of
from ddpdoctor.source.dataflow.origins import At, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import place_of
from ddpdoctor.source.program.classes import class_named


def part_of(values: Values, node: ast.expr, found: Origins, index: tuple[int, ...], at: At) -> Origins:
    """What the target at `index` gets when a value is unpacked."""
    each = values.substitutions.element(node, index[0])
    if each is not None and len(index) == 1:
        return values.of(each, at)
    if each is not None:  # `(a, b), (c, d) = [pair(x) for x in ("one", "two")]`
        return part_of(values, each, values.of(each, at), index[1:], at)
    for origin in found if len(index) == 1 else ():
        cls = class_named(values.project, origin.note) if origin.kind is Kind.INSTANCE else None
        if cls is not None and values.project.is_a(cls, "NamedTuple") and 0 <= index[0] < len(cls.fields):
            return attribute_of(values, cls, cls.fields[index[0]])
    if isinstance(node, ast.Call):
        part = returned_part(values, node, index, at)
        if part is not None:
            return part
    elif len(index) == 1 and (held := place_of(values, node, index[0], at)) is not None:
        return values.of(*held)
    return tuple(origin for origin in found if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.OBJECT, Kind.UNORDERED})
