"""Copies of tensors compared in plain Python: which ranks agree, how kinds and orders differ, how far numbers are apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence

from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.replicas import Aspect, Kind, Role, Side, StructureDifference

DIGITS = (4, 6, 9, 17)  # significant digits to try: 9 tell any two float32 apart, 17 any two float64
ALIKE = 1 - 1e-3  # of the largest difference: messages show three digits, and the last bits are the processor's
ASPECTS: tuple[Aspect, ...] = ("dtype", "shape", "stride", "requires_grad", "ties")


def sides_of(values: Mapping[int, Hashable]) -> tuple[Side, ...]:
    """The ranks that hold the same value, the largest group first, each with its value as text."""
    return tuple(Side(ranks=side, says=str(values[side[0]])) for side in vote(values).sides)


def parts_apart(held: Mapping[int, Mapping[int, Hashable]]) -> tuple[tuple[Side, ...], ...]:
    """The sides of each part of a tensor that differs between its holders; `held` is by part (its first holder) and by rank."""
    votes = (vote(of_rank) for of_rank in held.values())
    return tuple(tuple(Side(ranks=side) for side in one.sides) for one in votes if len(one.sides) > 1)


def structure_differences(
    role: Role, tables: Mapping[int, Mapping[str, Mapping[str, str]]]
) -> Iterator[StructureDifference]:
    """The tensors that some ranks lack, or that are of another kind on some; the first aspect of each that differs.

    `tables` maps each rank to its tensors by name, and each tensor to its aspects as text; an aspect that no rank
    lists is not compared.
    """
    for name in dict.fromkeys(name for table in tables.values() for name in table):
        held = {rank: table.get(name) for rank, table in tables.items()}
        presence = {rank: "absent" if kind is None else "present" for rank, kind in held.items()}
        if len(set(presence.values())) > 1:
            yield StructureDifference(role=role, name=name, aspect="presence", sides=sides_of(presence))
            continue
        for aspect in ASPECTS:
            values = {rank: kind.get(aspect, "") for rank, kind in held.items() if kind is not None}
            if len(set(values.values())) > 1:
                yield StructureDifference(role=role, name=name, aspect=aspect, sides=sides_of(values))
                break


def order_difference(role: Role, orders: Mapping[int, Sequence[str]]) -> StructureDifference | None:
    """The first place at which ranks list other names, or None where the orders or the sets of names are the same."""
    if len({tuple(order) for order in orders.values()}) < 2 or len({frozenset(order) for order in orders.values()}) > 1:
        return None
    place = next(at for at, names in enumerate(zip(*orders.values(), strict=True)) if len(set(names)) > 1)
    values = {rank: f"{order[place]} at position {place}" for rank, order in orders.items()}
    return StructureDifference(
        role=role, name=next(iter(orders.values()))[place], aspect="order", sides=sides_of(values)
    )


def row_major_index(offset: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of element number `offset` of a tensor of this shape, counted in row-major order."""
    index = []
    for size in reversed(shape):
        offset, place = divmod(offset, size)
        index.append(place)
    return tuple(reversed(index))


def largest_gap(numbers: Sequence[complex]) -> float:
    """The largest absolute difference of any two numbers, NaN where it cannot be calculated."""
    try:
        return float(max(abs(a - b) for a in numbers for b in numbers))
    except (OverflowError, ValueError):
        return math.nan


def kind_of(numbers: Sequence[complex]) -> Kind:
    """Whether arithmetic can tell numbers apart whose bits differ: two NaNs or two zeros it cannot."""
    if all(number != number for number in numbers):
        return "NaN payload"
    if all(number == numbers[0] for number in numbers):
        return "sign of zero"
    return "value"


def shortest_texts(numbers: Sequence[complex], distinct: int) -> tuple[str, ...] | None:
    """The numbers with as few digits as keep `distinct` of them apart, or None where all digits do not."""
    for digits in DIGITS:
        texts = tuple(str(number) if isinstance(number, (bool, int)) else f"{number:.{digits}g}" for number in numbers)
        if len(set(texts)) == distinct:
            return texts
    return None
