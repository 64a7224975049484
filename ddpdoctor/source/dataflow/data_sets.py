"""Data sets through what transforms, selects and divides them: `load_dataset(name)["train"].map(f)`, `random_split(...)`."""

from __future__ import annotations

import ast

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.source.dataflow.origins import At, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted

_KEEP_ALL_ROWS = frozenset(
    {"map", "with_format", "with_transform", "select_columns", "remove_columns", "rename_column", "rename_columns", "cast",
     "cast_column", "class_encode_column", "flatten", "flatten_indices", "shuffle", "sort", "train_test_split"}
)  # fmt: skip
"""Methods of a data set of `datasets` that give one with the same rows, or a dict of its parts."""
_CHOOSE_ROWS = frozenset({"select", "filter"})
_OWN = frozenset({Kind.LOCAL, Kind.WORLD_SIZE, *RANK_KINDS})


def is_streamed(node: ast.Call) -> bool:
    """Whether `load_dataset` is asked for an iterable data set, or may be."""
    return any(one.arg in {"streaming", None} and not _is_false(one.value) for one in node.keywords)


def of_huggingface(origins: Origins) -> Origins:
    """The data sets of `datasets` among the alternatives."""
    return tuple(one for one in origins if one.kind is Kind.DATASET and one.text.endswith("load_dataset"))


def transformed(values: Values, node: ast.Call, method: str, receiver: Origins, at: At) -> Origins | None:
    """What a method of a data set of `datasets` gives; None of other methods, and where the rank may choose its rows."""
    found = of_huggingface(receiver)
    if not found or len(found) < len(receiver):
        return None
    if method in _KEEP_ALL_ROWS:
        return found
    given = [*node.args, *(one.value for one in node.keywords)]
    return found if method in _CHOOSE_ROWS and all(_is_alike(values, one, at) for one in given) else None


def divided(values: Values, node: ast.Call, at: At) -> Origins:
    """The data set that `random_split` divides: each of the parts is one, whatever the ranks draw."""
    return tuple(one for one in values.of(node.args[0], at) if one.kind is Kind.DATASET) if node.args else ()


def subset(values: Values, node: ast.Call, at: At) -> Origins:
    """The data set of a `Subset` whose indices are known, and not chosen by the rank."""
    indices = node.args[1]
    drawn = any(one.note == "drawn" for one in values.of(indices, at))
    return divided(values, node, at) if drawn or (_is_range(indices) and _is_alike(values, indices, at)) else ()


def concatenated(values: Values, node: ast.Call, at: At) -> Origins:
    """The data sets that a `ConcatDataset` is made of; nothing where one of them is not known."""
    listed = node.args[0] if node.args else None
    parts = [values.of(one, at) for one in listed.elts] if isinstance(listed, ast.List | ast.Tuple) else []
    found = [one for part in parts for one in part]
    return tuple(found) if all(parts) and all(one.kind is Kind.DATASET for one in found) else ()


def _is_range(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="list"), args=[inner]):
            return _is_range(inner)
        case ast.Call():
            return dotted(node.func).rpartition(".")[2] in {"range", "arange"}
    return False


def _is_alike(values: Values, node: ast.expr, at: At) -> bool:
    """Whether what chooses rows neither holds nor names the rank."""
    named = any("rank" in dotted(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute))
    return not named and not any(one.kind in _OWN for one in values.of(node, at))


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
