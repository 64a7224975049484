"""Which model's weights, and which optimizer's settings, an expression is a part of."""

from __future__ import annotations

import ast

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.object_attributes import held_around
from ddpdoctor.source.dataflow.origins import At, Meaning, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import only_value
from ddpdoctor.source.names import torch_names as names

_OF_LAYERS = frozenset({"weight", "bias"})
"""The attributes of torch's layers that are parameters: others may be buffers, which DDP broadcasts in each forward."""
_MOST_NAMES = 3  # that stand for each other


def weights_of(values: Values, node: ast.expr, at: At, names: int = _MOST_NAMES) -> Origins:
    """The model, or its `parameters()`, of which an expression is a parameter or a part of one; empty of all others."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    found = values.of(node, at)
    if parameters := tuple(one for one in found if one.note == "parameters"):
        return parameters
    if isinstance(node, ast.Attribute) and node.attr in _OF_LAYERS:
        return held_around(values, node.value, at)
    if isinstance(node, ast.Name) and names and not found and (only := only_value(values, node, at)) is not None:
        return weights_of(values, *only, names - 1)
    return ()


def settings_of(values: Values, node: ast.expr, at: At) -> Origins:
    """The optimizer whose group of parameters an expression is: `optimizer.param_groups[0]`; empty of all others."""
    return tuple(one for one in values.of(node, at) if one.kind is Kind.OBJECT and one.note == "settings")


def written_into(what: Meaning, node: ast.Call) -> ast.expr | None:
    """The tensor that a call writes into, or the list of tensors; None of calls that write into none."""
    if what.target is not None:
        return None
    if isinstance(node.func, ast.Attribute) and what.name == f".{node.func.attr}":
        return node.func.value if node.func.attr in names.WRITES else None
    second = what.name in names.WRITES_ITS_SECOND
    position = 1 if second else 0 if what.name.startswith(names.WRITES_ITS_FIRST) else len(node.args)
    return node.args[position] if position < len(node.args) else None
