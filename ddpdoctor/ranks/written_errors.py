"""Source lines and errors that a rank wrote, as evidence."""

from __future__ import annotations

from collections.abc import Iterable

from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError


def frame_of(line: SourceLine) -> Frame:
    """The line as a frame."""
    return Frame(file=line.file, line=line.line, function=line.function)


def frames_of(lines: Iterable[SourceLine]) -> tuple[Frame, ...]:
    """Each of the lines as a frame."""
    return tuple(map(frame_of, lines))


def error_of(error: Error) -> RankError:
    """The error as evidence, causes included."""
    cause = error_of(error.cause) if error.cause is not None else None
    return RankError(type=error.type, message=error.message, stack=frames_of(error.stack), cause=cause)
