"""Where the fingerprints of named tensors differ between ranks, and at which element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.comparison import (
    ALIKE,
    kind_of,
    largest_gap,
    row_major_index,
    shortest_texts,
)
from ddpdoctor.evidence.replicas import (
    SAMPLED,
    Element,
    Kind,
    Role,
    Side,
    ValueDifference,
)
from ddpdoctor.evidence.training_trace import Table

Locate = Callable[[str, Sequence[Sequence[int]]], tuple[Element | None, Kind, str]]


def compare_tables(tables: Mapping[int, Table]) -> tuple[ValueDifference, ...]:
    """The parameters that differ, with the sampled element of the largest difference where one differs."""
    return compare_digests("parameter", {rank: table.digests for rank, table in tables.items()}, element_in(tables))


def compare_digests(
    role: Role, digests: Mapping[int, Mapping[str, str]], locate: Locate | None = None
) -> tuple[ValueDifference, ...]:
    """The tensors that all ranks have and whose fingerprints differ; `locate` finds the element and the extent."""
    names = next(iter(digests.values()), {})
    found = []
    for name in names:
        held = {rank: mine[name] for rank, mine in digests.items() if name in mine}
        if len(held) < len(digests) or len(set(held.values())) == 1:
            continue
        sides = vote(held).sides
        element, kind, extent = locate(name, sides) if locate is not None else (None, "value", "")
        values = element.values if element is not None else ("",) * len(sides)
        found.append(
            ValueDifference(
                role=role,
                name=name,
                element=element,
                kind=kind,
                extent=extent,
                sides=tuple(Side(ranks=side, says=value) for side, value in zip(sides, values, strict=True)),
            )
        )
    return tuple(found)


def element_in(tables: Mapping[int, Table]) -> Locate:
    """A function that gives the first element of a tensor in which its sides differ most, the kind and the extent of it.

    That is among the elements written down: some of each tensor, or all of one.
    """

    def locate(name: str, sides: Sequence[Sequence[int]]) -> tuple[Element | None, Kind, str]:
        columns = [dict(tables[side[0]].samples.get(name, ())) for side in sides]
        common = [offset for offset in columns[0] if all(offset in column for column in columns)]
        apart = [offset for offset in common if len({column[offset] for column in columns}) > 1]
        if not apart:
            return None, "value", ""
        kinds = {_kind([column[offset] for column in columns]) for offset in apart}
        gaps = {offset: _gap([column[offset] for column in columns]) for offset in apart}
        largest = max(gaps.values())
        offset, gap = next((offset, gap) for offset, gap in gaps.items() if gap >= largest * ALIKE or gap == largest)
        values = [column[offset] for column in columns]
        shape = tables[sides[0][0]].shapes.get(name, ())
        found = Element(
            index=row_major_index(offset, shape), values=_short(values), difference=gap if gap >= 0 else None
        )
        total = math.prod(shape)
        extent = f"{len(apart):,} of {total:,} elements" if len(columns[0]) == total else SAMPLED
        return found, kinds.pop() if len(kinds) == 1 else "value", extent

    return locate


def _gap(values: Sequence[str]) -> float:
    """The largest difference, -1 where it is not a finite number."""
    numbers = _numbers(values)
    gap = largest_gap(numbers) if numbers is not None else -1.0
    return gap if math.isfinite(gap) else -1.0


def _kind(values: Sequence[str]) -> Kind:
    if all(value.startswith("nan (") for value in values):
        return "NaN payload"
    numbers = _numbers(values)
    return "sign of zero" if numbers is not None and kind_of(numbers) == "sign of zero" else "value"


def _short(values: Sequence[str]) -> tuple[str, ...]:
    """The values with as few digits as keep different ones apart."""
    numbers = _numbers(values)
    return (shortest_texts(numbers, len(set(values))) if numbers is not None else None) or tuple(values)


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The values as numbers, or None where one is none, such as a NaN with its payload."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return None
