"""The lines of the program that decide whether a backward reduces gradients."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Where

SHOWN_DECISIONS = 3


def decides_the_reduction(code: SourceCode | None) -> list[Where]:
    """Where the program enters `no_sync` or `accumulate`, or sets `require_backward_grad_sync`; none without its source."""
    decides = [one for one in (code.requests if code is not None else ()) if one.wants == "accumulate"]
    return [
        Where.at(
            Frame(file=one.file, line=one.line, function=one.function),
            rank=None,
            note="decides which gradients are reduced",
        )
        for one in decides[:SHOWN_DECISIONS]
    ]
