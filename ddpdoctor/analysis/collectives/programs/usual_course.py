"""What a rank did instead of the call that usually follows: it left calls out, made one besides, or left its loop."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

LEAST_IN_COMMON = 2  # calls that must have led to this point before
FEW = 9  # calls that a rank may have left out, or made besides, and that are no turns of a loop


class Course(Enum):
    """What a rank did where others made another call, by what usually follows."""

    LEFT_OUT = "is at a call that comes after the one that the others make"
    BESIDES = "makes a call that comes before the one that the others make"
    LEFT_THE_LOOP = "is past turns of a loop that the others make"
    TURNS_AGAIN = "makes the calls of a loop once more, which the others are past"
    IN_TURN = "makes the call that turns of its loop have at this point"


def course(before: Sequence[int], mine: int, theirs: int, *, by_lines: bool) -> Course | None:
    """What a rank did that called `mine` after the calls `before`, where the others called `theirs`.

    `by_lines` says whether the two are known by their lines, and not by operation and shapes alone.
    None where neither of the two is what followed when the program was here before, or both can be right.
    """
    usual = _usual(before)
    if mine == theirs:
        return None
    if not usual:  # where the others are at a new line, a rank that came back to one that others followed is past it
        came_back = by_lines and mine in before and mine != before[-1]
        return Course.LEFT_OUT if came_back and theirs not in before else None
    if theirs == usual[0]:
        return _instead_of(before, usual, mine)
    return _as_usual(before, usual, theirs) if mine == usual[0] else None


def usual_instead(calls: Sequence[int]) -> int | None:
    """The call that turns of one loop have at the place of the last of these calls; it is that call itself where it is in turn.

    None where the calls before it are no such turns, or have no such call.
    """
    before, last = calls[:-1], calls[-1] if calls else None
    usual = _usual(before)
    return usual[0] if last in usual and _turns(before, len(usual)) else None


def course_by_turns(calls: Sequence[int]) -> Course | None:
    """What a rank did that made the last of these calls, by the turns of its loop; None where its calls are no such turns."""
    usual = usual_instead(calls)
    if usual is None:
        return None
    return Course.IN_TURN if usual == calls[-1] else course(calls[:-1], calls[-1], usual, by_lines=True)


def _as_usual(before: Sequence[int], usual: Sequence[int], theirs: int) -> Course | None:
    """What the rank did that called what usually follows, where the others called `theirs`.

    None where as many turns of a loop as these may lead to its end or to another turn: either side may have left it then.
    """
    again = _usual(before, within=len(usual) - 1)
    if again and again[0] == theirs and usual[0] not in again and not _turns(before, len(usual)):
        return None
    if theirs in usual[:FEW]:
        return Course.BESIDES
    return Course.TURNS_AGAIN if _turns(before, len(usual)) and theirs not in before else None


def _instead_of(before: Sequence[int], usual: Sequence[int], mine: int) -> Course | None:
    """What the rank did that called `mine` and not what usually follows."""
    if mine not in usual:
        return Course.LEFT_THE_LOOP if mine in before and _turns(before, len(usual)) else None
    left_out = usual[: usual.index(mine)]
    if _goes_on(before, left_out):
        return Course.LEFT_THE_LOOP
    again = _usual(before, within=len(usual) - 1)
    if len(left_out) > 1 and again and again[0] == mine and _turns(before, len(again)):
        return Course.TURNS_AGAIN
    if len(left_out) > 1 and mine == before[-1]:
        return Course.BESIDES
    return Course.LEFT_OUT if len(left_out) < FEW else None


def _usual(before: Sequence[int], within: int | None = None) -> Sequence[int]:
    """What followed the last time that most of the calls which lead here had led to a point, up to here; empty without one.

    The last time is one of the last `within` calls, where these are given.
    """
    most = len(before) - 1 if within is None else min(within, len(before) - 1)
    in_common = _common_with_the_end(before)
    furthest = max(range(1, most + 1), key=in_common.__getitem__, default=0)
    if not furthest or in_common[furthest] < LEAST_IN_COMMON:
        return ()
    return before[len(before) - furthest :]


def _common_with_the_end(calls: Sequence[int]) -> list[int]:
    """For each number of calls, how many of those before the last so many are the same as the last ones (a Z-function)."""
    back = calls[::-1]
    found, start, end = [len(back)] + [0] * (len(back) - 1), 0, 0
    for place in range(1, len(back)):
        length = min(end - place, found[place - start]) if place < end else 0
        while place + length < len(back) and back[length] == back[place + length]:
            length += 1
        found[place] = length
        if place + length > end:
            start, end = place, place + length
    return found


def _turns(before: Sequence[int], period: int) -> bool:
    """Whether the last two times so many calls are the same: a loop."""
    return before[-period:] == before[-2 * period : -period]


def _goes_on(before: Sequence[int], following: Sequence[int]) -> bool:
    """Whether these calls are whole turns of what was called just before."""
    for period in range(1, min(len(following), len(before)) + 1):
        turn = before[len(before) - period :]
        if len(following) % period == 0 and all(turn[at % period] == one for at, one in enumerate(following)):
            return True
    return False
