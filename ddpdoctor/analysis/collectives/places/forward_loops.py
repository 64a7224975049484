"""The loops around a training forward, and the ways out of the functions that make it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.ranks import Forward
from ddpdoctor.evidence.source import Jump, Loop, SourceCode, place_of


def loop_of(forward: Forward | None, code: SourceCode | None) -> tuple[Frame | None, Loop | None]:
    """The innermost loop around a forward, with the line in it: of the user's own code, or else of a framework."""
    return next(_loops_around(forward, code), (None, None))


def loop_with_an_exit(forward: Forward | None, code: SourceCode | None) -> tuple[Frame | None, Loop | None]:
    """The innermost of them that can be left before its end, by a `break` or a `return`; else the innermost."""
    around = [*_loops_around(forward, code)]
    exits = ((frame, loop) for frame, loop in around if any(jump.word in ("break", "return") for jump in loop.jumps))
    return next(exits, around[0] if around else (None, None))


def _loops_around(forward: Forward | None, code: SourceCode | None) -> Iterator[tuple[Frame, Loop]]:
    """The loops around a forward, the innermost first, those of the user's own code before those of frameworks."""
    if forward is None or code is None:
        return
    program = forward.stack[::-1]
    for frame in (*reversed(only_users(program)), *forward.stack):
        place = place_of(code, frame)
        yield from ((frame, loop) for loop in reversed(place.loops if place is not None else ()))


def exits_behind(forward: Forward | None, loop: Frame | None, code: SourceCode | None) -> list[tuple[Frame, Jump]]:
    """What may have ended a turn behind its forward, each with a frame of its function: a `return`, the handler of an error.

    `return`s of the functions that the line `loop` in the loop around the forward leads to, and handlers around that line, too.
    """
    if forward is None or loop not in forward.stack:
        return []
    inside = only_users(forward.stack[: forward.stack.index(loop) + 1])
    places = [(frame, place) for frame in inside if (place := place_of(code, frame)) is not None]
    return [
        (frame, jump)
        for frame, place in places
        for jump in place.exits
        if jump.line > frame.line and (jump.word != "return" or frame != loop)
    ]
