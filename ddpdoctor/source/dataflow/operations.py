"""What arithmetic makes of ranks, numbers of ranks and texts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.origins import TAINTS, At, Origins
from ddpdoctor.source.dataflow.values import Values

_SIZES = frozenset({Kind.WORLD_SIZE, Kind.DEVICE_COUNT})


def result_of(values: Values, node: ast.BinOp, at: At) -> Iterable[Origin]:
    """The alternatives of `left + right` and the like."""
    left, right = values.of(node.left, at), values.of(node.right, at)
    ranks = [one for one in left if one.kind in RANK_KINDS]
    if ranks and isinstance(node.op, ast.Mod):
        return _remainders(ranks, right)
    if ranks and isinstance(node.op, ast.FloorDiv):
        return [replace(one, kind=Kind.RANK, note="") for one in ranks]
    found = [*_of_ranks(node, left, right), *_of_sums(node, left, right), *_of_sizes(node.op, left, right)]
    given = isinstance(node.op, ast.Mult) and all(any(one.note == "argument" for one in side) for side in (left, right))
    path = isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant | ast.JoinedStr)
    text = (path or _makes_a_text(node)) and not any(one.kind in TAINTS for one in left + right)
    return [*found, Origin(kind=Kind.UNKNOWN, text=values.text(node, at.scope))] if given or text else found


def _remainders(ranks: Iterable[Origin], divisor: Origins) -> list[Origin]:
    """`rank % n`: the rank itself where n is the number of ranks, else one of the ranks of a node."""
    if any(one.kind is Kind.WORLD_SIZE for one in divisor):
        return [one if one.kind is not Kind.RANK else replace(one, note="") for one in ranks]
    return [replace(one, kind=Kind.LOCAL_RANK, note="remainder") for one in ranks]


def _of_ranks(node: ast.BinOp, left: Origins, right: Origins) -> Iterator[Origin]:
    """What differs between ranks in one of the sides; in a text the rank is still the rank."""
    plain = _is_text(node.left) and isinstance(node.op, ast.Add | ast.Mod)
    divides = isinstance(node.op, ast.Div)
    for origin in (*left, *(one for one in right if one.kind is not Kind.DEVICE_COUNT or not divides)):
        if origin.kind in RANK_KINDS:
            yield origin if plain else replace(origin, kind=Kind.RANK, note="")
        elif origin.kind in TAINTS and origin.kind is not Kind.WORLD_SIZE:
            yield origin


def _of_sums(node: ast.BinOp, left: Origins, right: Origins) -> Iterator[Origin]:
    """Joined lists of parameters, `list(a.parameters()) + list(b.parameters())`, and the number behind a known one."""
    if not isinstance(node.op, ast.Add):
        return
    yield from (one for one in left + right if one.note == "parameters")
    if isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
        yield from (one for one in left if one.note == "load")  # `checkpoint["epoch"] + 1`
        yield from (replace(one, note="number", made="") for one in left if _is_listed(one))


def _of_sizes(operator: ast.operator, left: Origins, right: Origins) -> Iterator[Origin]:
    """The number of ranks or devices by which something is divided or multiplied, or which a number depends on."""
    both = [one for one in left + right if one.kind is Kind.WORLD_SIZE]
    if isinstance(operator, ast.Div):
        divisors = (one for one in right if one.kind in _SIZES and one.note in {"", "multiplies"})
        yield from (replace(one, note="divides") for one in divisors)
    elif isinstance(operator, ast.Mult):
        yield from (one if one.note == "divides" else replace(one, note="multiplies") for one in both)
    else:  # `steps // world_size` is another number, which only depends on it
        yield from (replace(one, note="derived") for one in both)


def _makes_a_text(node: ast.BinOp) -> bool:
    """Whether a text is put together: `"step%d" % n`, `folder + "/last.pt"`."""
    if isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node.op, ast.Mod) and _is_text(node.left)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_listed(origin: Origin) -> bool:
    """Whether a value is an entry of a folder, or how many there are."""
    return origin.note in {"item", "number"} and origin.from_listing
