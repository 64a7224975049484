"""The operations of a dictionary in a pickle, followed without executing one: where each key and each value begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_OPERATIONS = 2_000  # of a dictionary
MOST_BYTES = 1 << 16  # of a dictionary

LONG, TEXT = 0x8A, ord("X")
"""The codes of LONG1 and BINUNICODE, whose operand says how many bytes follow."""
_OPERANDS = {**dict.fromkeys(b"qhK\x8a", 1), **dict.fromkeys(b"rjJX", 4), ord("M"): 2, ord("G"): 8}
LENGTHS = bytes(1 + _OPERANDS.get(code, 0) for code in range(256))
"""The bytes of each operation; the text or long number that the operand of a `_COUNTED` one gives the length of is not in it."""
_PUSHING = frozenset(b"hjKMJGX\x8aN\x88\x89]})")
_COUNTED = frozenset({LONG, TEXT})
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_ENDS = {ord("a"): ord("]"), ord("e"): ord("]"), ord("u"): ord("}")}  # what adds to a container, and how that began
_PUTS, _KEPT = frozenset(b"qr"), frozenset(b"X]}aeut\x85\x86\x87")
GETS = frozenset(b"hj")
"""The codes of BINGET and LONG_BINGET, which name an object that was written before."""


@dataclass(frozen=True, slots=True)
class PickleWalk:
    """The operations of a dictionary in a pickle, as far as they could be followed."""

    begin: int
    """The position of its first operation."""
    end: int
    """The position behind its last operation, or of the first one that neither PyTorch nor Python writes in an entry."""
    items: Sequence[int] = ()
    """The position of the operation that made each key and each value, in turn; none where the dictionary has no end."""
    puts: Sequence[tuple[int, int]] = ()
    """The first position of each PUT operation, and the one behind it."""


def walked(data: bytes, begin: int) -> PickleWalk:
    """The operations of the dictionary that begins at `begin`, each of which is read once.

    Only what each of them leaves on the unpickler's stack is followed. One that adds to a container must add to one that was
    made in this dictionary, and only what a pickler keeps under a number may have one.
    """
    last = min(len(data), begin + MOST_BYTES)
    place, before = begin, 0
    marks: list[int] = []
    stack: list[int] = []
    puts: list[tuple[int, int]] = []
    for _ in range(MOST_OPERATIONS):
        if place >= last:
            break
        code = data[place]
        end = place + LENGTHS[code]
        if code in _PUSHING:
            stack.append(place)
            if code in _COUNTED:
                end += int.from_bytes(data[place + 1 : end], "little")
                if end > last:
                    break
        elif code in _PUTS and before in _KEPT:
            puts.append((place, end))
        elif code == ord("("):
            marks.append(len(stack))
        elif code in _TUPLES and len(stack) - _TUPLES[code] >= (marks[-1] if marks else 0):
            stack[-_TUPLES[code] :] = [place]
        elif code == ord("t") and marks:
            stack[marks.pop() :] = [place]
        elif code in _ENDS and (marks or code == ord("a")):
            first = len(stack) - 1 if code == ord("a") else marks.pop()
            if first <= (marks[-1] if marks else 0) or data[stack[first - 1]] != _ENDS[code]:
                break
            if not marks and code == ord("u"):
                return PickleWalk(begin, end, stack[first:], puts)
            del stack[first:]
        else:
            break
        place, before = end, code
    return PickleWalk(begin, place)
