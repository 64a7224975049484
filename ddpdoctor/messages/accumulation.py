"""The lines of the program that decide whether a backward reduces gradients."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Request, SourceCode
from ddpdoctor.model import Where

SHOWN_DECISIONS = 3


def decides_the_reduction(code: SourceCode | None) -> list[Where]:
    """Where the program enters `no_sync` or `accumulate`, or sets what a wrapper reduces; none without its source.

    With the values that depend on the rank, above these lines in their functions.
    """
    if code is None:
        return []
    decides = [request for request in code.requests if request.wants == "accumulate"][:SHOWN_DECISIONS]
    return [
        *(where for one in decides for where in _values_above(one, code)),
        *(
            Where.at(
                Frame(file=one.file, line=one.line, function=one.function),
                rank=None,
                note="decides which gradients are reduced",
            )
            for one in decides
        ),
    ]


def _values_above(request: Request, code: SourceCode) -> list[Where]:
    here = [place for place in code.places if (place.file, place.function) == (request.file, request.function)]
    values = dict.fromkeys(value for place in here for value in place.rank_values)
    return [
        Where.at(
            Frame(file=request.file, line=value.line, function=request.function),
            rank=None,
            note=f"`{value.text}` depends on the rank",
        )
        for value in values
        if value.compares and value.line <= request.line
    ]
