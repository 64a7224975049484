"""What the innermost line of the user's own code waits for, where no library function is above it to show it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.source import SourceCode, place_of
from ddpdoctor.evidence.stacks import Stacks

UNKNOWN_CALL = "an asynchronous call"
ASKS_A_COLLECTIVE = "is_completed"
_ASKS_A_CALL = (ASKS_A_COLLECTIVE, "query", "done")
_ASKS_THE_DEVICE = frozenset({"item", "cpu", "tolist", "numpy", "synchronize"})
_ASKS_THE_STORE = re.compile(
    r"(?:^|\.|\b(?:c10d|tcp|file|hash|prefix)_?)_?(?:default_)?store\.(?:get|wait|multi_get)$", re.IGNORECASE
)
_READS_A_VALUE = frozenset(  # of what the store gives, or makes what it is asked with
    {"int", "float", "str", "bool", "print", "loads", "decode", "timedelta", "format", "join", "range", "list"}
)
_ASKS_FOR_INPUT = frozenset({"input", "sys.stdin.readline", "sys.stdin.read", "getpass.getpass"})


def waited_for(
    kind: Activity, frames: Sequence[Frame], code: SourceCode | None, *, stays: bool | None
) -> tuple[Activity, str, Frame | None] | None:
    """The activity, call and place of a rank whose innermost line waits for an asynchronous collective or for its device.

    Only the `wait` of torch's own asynchronous calls leaves no Python frame above the line. The collective is the last one
    before the line, and the place is that of its call. None where the line shows neither. `stays` is whether the rank was
    at this line in every snapshot.
    """
    place = users_frame(frames)
    known = place_of(code, place)
    if place is None or known is None:
        return None
    called = known.collectives[-1] if known.collectives else None
    if kind is Activity.LOCK and place is frames[0] and any(call.endswith(".wait") for call in known.calls):
        return Activity.COLLECTIVE, called.op if called is not None else UNKNOWN_CALL, place
    if kind is Activity.COMPUTING and stays and not _ASKS_THE_DEVICE.isdisjoint(map(_last_name, known.calls)):
        if called is None:
            return Activity.DEVICE, "a read from the device", place
        return Activity.COLLECTIVE, called.op, place.at_line(called.line)
    return None


def polls_a_call(stacks: Stacks, code: SourceCode | None, asking: Sequence[str] = _ASKS_A_CALL) -> bool:
    """Whether the rank was in every snapshot in one loop that asks an asynchronous call whether it is complete."""
    if code is None or not stacks.seen or not all(stacks.seen):
        return False
    if len({(stack[0].function, stack[1:]) for stack in stacks.seen}) > 1:
        return False
    places = [place for stack in stacks.seen if (place := code.at(stack[0].file, stack[0].line)) is not None]
    if len(places) < len(stacks.seen) or not any(_last_name(call) in asking for at in places for call in at.calls):
        return False
    heads = [
        {place.line, *(loop.line for loop in place.loops[-1:])} for place in places
    ]  # a head is not in its own loop
    return bool(set.intersection(*heads))


def asks_for_input(frames: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether the user's innermost line asks for input, with nothing between it and the read."""
    place = users_frame(frames)
    if place is None or code is None or place is not frames[0]:
        return False
    known = code.at(place.file, place.line)
    return known is not None and not _ASKS_FOR_INPUT.isdisjoint(known.calls)


def asks_the_store(frames: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether the user's innermost line asks a rendezvous store for a key, which waits until some rank sets it."""
    place = users_frame(frames)
    known = code.at(place.file, place.line) if code is not None and place is not None and place is frames[0] else None
    others = [call for call in known.calls if not _ASKS_THE_STORE.search(call)] if known is not None else []
    asks = known is not None and len(others) < len(known.calls)
    return asks and _READS_A_VALUE.issuperset(map(_last_name, others))


def _last_name(call: str) -> str:
    return call.rpartition(".")[2]
