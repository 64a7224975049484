"""What `object[key]` can be: an item under a key, a part of a list, or what other indices pick."""

from __future__ import annotations

import ast
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.data_sets import of_huggingface
from ddpdoctor.source.dataflow.held_by_names import held_under
from ddpdoctor.source.dataflow.lengths import at_drawn, is_alike, is_certain_rank, is_even, of_indices
from ddpdoctor.source.dataflow.literals import Literal, known_literal
from ddpdoctor.source.dataflow.object_attributes import ARGUMENT_OBJECTS
from ddpdoctor.source.dataflow.origins import At, Origins, environment, joined, note_of
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import is_environment, items_of, of_any_key, place_of
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted

MOST_ITEMS = 12  # assignments to one key of a module's dict that are looked at
_KEPT = frozenset({Kind.LOCAL, Kind.SHARED, Kind.OBJECT, Kind.UNORDERED, Kind.CPU_TENSOR})
"""What an item of such a whole is, too."""


def item(values: Values, node: ast.Subscript, at: At) -> Origins:
    """The alternatives of `object[key]`."""
    key = known_literal(values, node.slice, at)
    if key is not None and is_environment(values, node.value, at):
        return environment(str(key.value))
    if (held := _held_under_key(values, node, key, at)) is not None:
        return held
    found = tuple(one for one in values.of(node.value, at) if one.kind in _KEPT)
    if key is not None and isinstance(key.value, str):
        found += of_huggingface(values.of(node.value, at))
        found = tuple(one for one in found if one.kind is not Kind.LOCAL or one.made)  # a clock under another key
    if isinstance(node.slice, ast.Slice):
        return _part(values, node.value, node.slice, found, at)
    if isinstance(node.slice, ast.Compare) and any(one.kind is Kind.LOCAL for one in values.of(node.slice, at)):
        return tuple(replace(one, note="picked") if one.kind is Kind.LOCAL else one for one in found)
    return found if isinstance(node.slice, ast.Constant) else _picked(found, values.of(node.slice, at))


def _held_under_key(values: Values, node: ast.Subscript, key: Literal | None, at: At) -> Origins | None:
    """What is known to be held under a key, or at a position; None where nothing is."""
    if key is None:
        variable = isinstance(node.slice, ast.Name | ast.Attribute)
        return (of_any_key(values, node.value, at) or None) if variable else None
    if isinstance(key.value, str):
        return _held_under_word(values, node, key.value, at)
    place = place_of(values, node.value, key.value, at) if isinstance(key.value, int) else None
    return values.of(*place) if place is not None else None


def _held_under_word(values: Values, node: ast.Subscript, word: str, at: At) -> Origins | None:
    """What an object holds under a text: it was assigned there, it is written out, or it is an option that holds the rank."""
    key = dotted(node.value)
    item_name = f"{key}[{word!r}]"
    if key and item_name in at.scope.definitions and (found := held_under(values, item_name, at)):
        return found
    if key and (found := _of_module(values, key, word, at)):
        return found
    held_in = isinstance(node.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    written = items_of(values, node.value, at) if held_in else None
    if written is not None and word in written:
        return values.of(*written[word])
    if key.rpartition(".")[2] in ARGUMENT_OBJECTS and word in rank_names.RANK_NAMES:
        return (Origin(kind=rank_names.RANK_NAMES[word], text=item_name, note=note_of(word)),)
    return None


def _of_module(values: Values, key: str, item: str, at: At) -> Origins:
    """What the functions of a module assign to a key of its dict."""
    meant = values.project.resolve(at.scope, key)
    if not isinstance(meant, tuple):
        return ()
    module, name = meant
    given = values.index.items.get((module.file, f"{name}[{item!r}]"), ())[:MOST_ITEMS]
    return joined(origin for scope, one in given for origin in values.defined(f"{name}[{item!r}]", one, scope))


def _part(values: Values, whole: ast.expr, cut: ast.Slice, found: Origins, at: At) -> Origins:
    """What `rows[a:b]` gives of a list that is `found`: with the rank in the bounds, this rank's part."""
    bounds = [one for bound in (cut.lower, cut.upper, cut.step) for one in values.of(bound, at)]
    ranks = [one for one in bounds if one.kind in RANK_KINDS]
    note = "even" if is_alike(cut, at.scope) or is_even(values, whole, at) else "part"
    if not ranks and cut.upper is not None:  # `files[rank::world_size][:per_rank]` is equally long on all ranks
        found = tuple(replace(one, note="even") if one.note == "part" else one for one in found)
        sized = (one for one in values.of(cut.upper, at) if one.kind is Kind.WORLD_SIZE)
        found += tuple(replace(one, note="derived") for one in sized)
    return (*found, *(replace(one, kind=Kind.LOCAL, note=note) for one in ranks[:1]), *at_drawn(bounds))


def _picked(found: Origins, indices: Origins) -> Origins:
    """What indices pick of a whole that is `found`: `data[torch.randperm(len(data))]`."""
    drawn = (one for one in indices if one.note == "drawn")
    own = (replace(one, kind=Kind.LOCAL, note="own") for one in indices if is_certain_rank(one))
    return joined([*found, *drawn, *of_indices(indices), *at_drawn(indices), *own])
