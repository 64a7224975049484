"""How long a list is on each rank: the parts that ranks take of one, and the numbers in them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.origins import At, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Block, Definition, Scope

UNEVEN = frozenset({"part", "length"})
"""Notes of what is longer on one rank than on another, or counts it."""
_OWN = frozenset({"part", "even", "own"})


_ENDS_A_LOOP = frozenset({"forward", "clock"})
"""Notes of values by which a loop ends sooner on one rank than on another."""


def of_range(values: Values, node: ast.Call, at: At) -> Iterator[Origin]:
    """What `range(...)` is: the rank's own numbers, or as many as a value says."""
    given = [tuple(values.of(one, at)) for one in node.args]
    ranks = [one for origins in given for one in origins if is_certain_rank(one)]
    strided = len(given) == 3 and any(map(is_certain_rank, given[0])) and _is_world(given[2])
    if strided and not _is_world(given[1]):
        note = "part" if _is_length(node.args[1], at.scope) and not leaves_no_remainder(at.scope) else "even"
        yield from (replace(one, kind=Kind.LOCAL, note=note) for one in ranks[:1])
    else:
        yield from (replace(one, kind=Kind.RANK, note="range") for one in ranks)
    for origins in given:
        for one in origins:
            if one.kind is Kind.LOCAL:
                yield replace(one, note="length") if one.note == "part" else one
            elif one.kind is Kind.SHARED:
                yield one
            elif one.kind is Kind.WORLD_SIZE:
                yield replace(one, note="derived")


def _is_length(node: ast.expr, scope: Scope) -> bool:
    """Whether an end is `len(data)`, also by a name: of any other number the author may know that the ranks share it evenly."""
    given = scope.definitions.get(node.id, ()) if isinstance(node, ast.Name) else ()
    end = given[0].value if len(given) == 1 else node
    return isinstance(end, ast.Call) and dotted(end.func) == "len"


def of_length(found: Iterable[Origin]) -> list[Origin]:
    """What a length depends on: batches are equally long on all ranks, parts of a list and what a test picked are not."""
    found = list(found)
    parts = [replace(origin, note="length") for origin in found if origin.note == "part"]
    listed = [replace(one, kind=Kind.LOCAL, note="number") for one in found if _is_listing(one)]
    return [*parts, *(origin for origin in found if origin.note == "picked"), *listed]


def of_empty_items(values: Values, node: ast.expr, at: At) -> Iterator[Origin]:
    """What a test depends on that asks whether a part of a batch is empty: `len(target["boxes"]) == 0`, `batch.y.numel() == 0`.

    Batches are equally long on all ranks; what a loop over one, or its keys, gives is as long as the rank's samples say.
    """
    match node:
        case (
            ast.Call(func=ast.Name(id="len"), args=[asked])
            | ast.Call(func=ast.Attribute(value=asked, attr="numel"), args=[])
        ):
            held: ast.expr = asked
        case _:
            return
    while isinstance(held, ast.Attribute | ast.Subscript):
        held = held.value
    given = at.scope.definitions.get(held.id, ()) if isinstance(held, ast.Name) and held is not asked else ()
    if given and all(one.form == "for" for one in given):
        yield from (one for one in values.of(asked, at) if one.kind is Kind.LOCAL and one.note == "batch")


def grown(values: Values, change: Definition, scope: Scope) -> Iterator[Origin]:
    """What a list has of the loop in which it is added to: the length of the rank's own part, or no fixed order.

    It is as long as a value of the rank says, too, where a `while` ends by one, as an episode does.
    """
    block: Block | None = change.block
    while block is not None:
        if block.form == "for" and isinstance(block.node, ast.For | ast.AsyncFor):
            over = values.of(block.node.iter, At(scope, block.order, block.parent or block))
            yield from (one for one in over if one.note == "part" or one.kind is Kind.UNORDERED)
        if block.form == "while" and isinstance(block.node, ast.While):
            test = values.of(block.node.test, At(scope, block.order, block))
            own = next((one for one in test if one.kind is Kind.LOCAL and one.note in _ENDS_A_LOOP), None)
            if own is not None and not any(one.kind is Kind.SHARED for one in test):
                yield replace(own, note="part", made="")
                return
        block = block.parent


def of_items(found: Iterable[Origin]) -> Iterator[Origin]:
    """What the items of a list are that only this rank has: its own, but no lists that differ in their length."""
    for origin in found:
        if origin.kind is Kind.LOCAL and origin.note in {"part", "even"}:
            yield replace(origin, note="own")


def is_drawn(origin: Origin) -> bool:
    """Whether an alternative is whole numbers that torch draws."""
    return origin.kind is Kind.CPU_TENSOR and origin.text.startswith("torch.randint") and not origin.note


def at_drawn(indices: Iterable[Origin]) -> Iterator[Origin]:
    """What `data[i : i + n]` is where `i` is drawn: other data on each rank, unless all of them draw alike."""
    return (replace(one, kind=Kind.LOCAL, note="draw") for one in indices if is_drawn(one))


def of_indices(found: Iterable[Origin]) -> Iterator[Origin]:
    """What `data[indices]` is where the indices are the rank's own: as long as they are, and as much its own."""
    return (one for one in found if one.kind is Kind.LOCAL and one.note in _OWN)


def is_alike(cut: ast.Slice, scope: Scope) -> bool:
    """Whether a slice is as long on all ranks: both ends are given, and what only the upper one is made of is no choice."""
    if cut.step is not None or cut.lower is None or cut.upper is None:
        return False
    return not _is_chosen(cut.upper, scope, {one.id for one in ast.walk(cut.lower) if isinstance(one, ast.Name)})


def _is_chosen(node: ast.expr, scope: Scope, seen: set[str]) -> bool:
    """Whether a number is one of several: of `a if test else b`, of `min(a, b)`, or of a name that gets another value."""
    for part in ast.walk(node):
        if isinstance(part, ast.IfExp) or (isinstance(part, ast.Call) and dotted(part.func) in {"min", "max"}):
            return True
        if not isinstance(part, ast.Name) or part.id in seen:
            continue
        seen.add(part.id)
        given = scope.definitions.get(part.id, ())
        for one in given:
            if len(given) > 1 and one.block.form in {"if", "else"}:
                return True
            if isinstance(one.value, ast.expr) and _is_chosen(one.value, scope, seen):
                return True
    return False


def is_even(values: Values, node: ast.expr, at: At) -> bool:
    """Whether a list was cut or filled up to a multiple of the world size before a rank takes its part."""
    if _is_slice(node) or _is_world(values.of(node, at)) or leaves_no_remainder(at.scope):
        return True
    before = (one for one in at.scope.definitions.get(dotted(node), ()) if dotted(node) and one.order < at.order)
    return any(_is_sized(values, one, at.scope) for one in before)


def _is_slice(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)


def _is_sized(values: Values, definition: Definition, scope: Scope) -> bool:
    value = definition.value
    if _is_slice(value):
        return True
    at = At(scope, definition.order, definition.block)
    parts: list[ast.expr] = []
    if isinstance(value, ast.Call):
        parts = [*value.args, *(one.value for one in value.keywords)]
    elif isinstance(value, ast.BinOp):
        parts = [value.left, value.right]
    return any(_is_world(values.of(part, at)) for part in parts)


def leaves_no_remainder(scope: Scope) -> bool:
    """Whether a function fails where a division leaves a remainder: `assert len(files) % world_size == 0`."""
    for statement in scope.statements:
        node = statement.node
        fails = isinstance(node, ast.Assert) or (isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise))
        if fails and any(_is_remainder(part) for part in ast.walk(node.test)):  # type: ignore[attr-defined]
            return True
    return False


def is_certain_rank(origin: Origin) -> bool:
    """Whether an alternative is the rank for certain."""
    return origin.kind in RANK_KINDS and origin.note != "uncertain"


def _is_remainder(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.right, ast.Constant)


def _is_world(found: Origins) -> bool:
    return any(one.kind in {Kind.WORLD_SIZE, Kind.DEVICE_COUNT} for one in found)


def _is_listing(origin: Origin) -> bool:
    return origin.kind is Kind.UNORDERED and origin.from_listing
