"""A loop that catches an error and tries again: what it caught is no failure of the rank."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.source import CodePlace, SourceCode


def caught_in_a_loop(place: CodePlace | None) -> str:
    """`except FileExistsError`, where the line is in a handler within a loop; empty where it is not."""
    if place is None or not place.loops:
        return ""
    head = place.loops[-1].line
    return next(
        (
            condition.test
            for condition in place.conditions
            if condition.test.startswith("except") and condition.line > head
        ),
        "",
    )


def without_what_was_caught(ended: RankExit, code: SourceCode | None) -> RankExit:
    """Of a rank that Ctrl-C ended between two tries the exception, and its last lines, without the one that it had caught."""
    error = ended.error
    if code is None or error is None or error.type != "KeyboardInterrupt" or error.cause is None:
        return ended
    place = users_frame(error.stack)
    if place is None or not caught_in_a_loop(code.at(place.file, place.line)):
        return ended
    caught = f"{error.cause.type}: {error.cause.message}".partition("\n")[0]
    tail = tuple(line for line in ended.tail if caught not in line)
    return replace(ended, error=replace(error, cause=None), tail=tail)
