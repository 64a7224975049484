"""Two programs as sequences of calls: where they first differ, and which of them did what it had always done before."""

from __future__ import annotations

from collections.abc import Sequence

COMPARED = 64  # calls behind a difference that must be the same again
LONGEST = 64  # calls that lead to one and tell what usually follows them
SEEN_OFTEN = 3  # times that they must have led to the same call


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place at which the two differ; None where one is the beginning of the other."""
    return next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), None)


def agree(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether both go on alike, as far as both are known, for as many calls as are compared; False where one is at its end."""
    length = min(len(one), len(other), COMPARED)
    return length > 0 and [*one[:length]] == [*other[:length]]


def always_next(calls: Sequence[int]) -> int | None:
    """The call that always followed what these end in: the longest end of them that was there often enough before.

    None where different calls followed it.
    """
    for length in range(min(LONGEST, len(calls)), 0, -1):
        end = [*calls[-length:]]
        followed = [calls[at + length] for at in range(len(calls) - length) if [*calls[at : at + length]] == end]
        if len(followed) >= SEEN_OFTEN:
            return followed[0] if len({*followed}) == 1 else None
    return None
