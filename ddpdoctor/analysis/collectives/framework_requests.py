"""What some ranks alone ask of a framework, which then makes a call, or leaves one out, below no line of that request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.callsites import ranks_under, tells_ranks_apart
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, Request, SourceCode

_ENDS_WELL = re.compile(r"(?:raise SystemExit|(?:sys\.|os\._)?exit|quit)(?:\((?:0|None)?\))?")


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A request that stands under a test of the rank."""

    request: Request
    condition: Condition

    @property
    def frame(self) -> Frame:
        """Its line."""
        return Frame(file=self.request.file, line=self.request.line, function=self.request.function)

    def made_by(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Those of `ranks` that the test lets through, as far as it names one; empty where it does not, or where all pass."""
        named = ranks_under(self.condition, ranks)
        return named if len(named) < len(ranks) else ()


def rank_requests(code: SourceCode | None, wants: str) -> Iterator[RankRequest]:
    """The requests of this kind that not every rank makes."""
    for request in code.requests if code is not None else ():
        told = next((one for one in request.conditions if request.wants == wants and tells_ranks_apart(one)), None)
        if told is not None:
            yield RankRequest(request, told)


def exits_of(code: SourceCode | None, ranks: Sequence[int], others: Sequence[int]) -> RankRequest | None:
    """The statement under a test of the rank by which these `ranks`, and not the `others`, end the program with exit code 0.

    None where there is none, or where tests that name no rank leave it open which of several it is.
    """
    found = []
    for asked in (*rank_requests(code, "stop"), *rank_requests(code, "exit")):
        made = asked.made_by(sorted({*ranks, *others}))
        if _ENDS_WELL.fullmatch(asked.request.text) and (not made or {*made} == {*ranks}):
            found.append((bool(made), asked))
    named = [asked for names, asked in found if names] or [asked for _, asked in found]
    return named[0] if len(named) == 1 else None
