"""Source lines and errors that a rank wrote, as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError
from ddpdoctor.logs.tracebacks import Tracebacks

PASSED_ON = "Original Traceback (most recent call last):"
"""What torch writes above the traceback of a worker's error, within the message of the error that it raises for it."""


def frame_of(line: SourceLine) -> Frame:
    """The line as a frame."""
    return Frame(file=line.file, line=line.line, function=line.function)


def optional_frame(line: SourceLine | None) -> Frame | None:
    """The line as a frame; None where there is no line."""
    return frame_of(line) if line is not None else None


def frames_by_name(lines: Mapping[str, SourceLine]) -> dict[str, Frame]:
    """Each of the lines as a frame, by the same names."""
    return {what: frame_of(line) for what, line in lines.items()}


def frames_of(lines: Iterable[SourceLine]) -> tuple[Frame, ...]:
    """Each of the lines as a frame."""
    return tuple(map(frame_of, lines))


def error_of(error: Error) -> RankError:
    """The error as evidence, causes included: also the one that a data loader's worker passed on as text."""
    cause = error_of(error.cause) if error.cause is not None else _passed_on(error.message)
    return RankError(type=error.type, message=error.message, stack=frames_of(error.stack), cause=cause)


def _passed_on(message: str) -> RankError | None:
    """The error of a data loader's worker, as the message of the rank's own error quotes it; None where it quotes none."""
    _, head, text = message.partition(PASSED_ON)
    if not head:
        return None
    tracebacks = Tracebacks()
    for line in [head.removeprefix("Original "), *text.splitlines()]:
        tracebacks.feed(line)
    tracebacks.close()
    return next(iter(tracebacks.errors), None)
