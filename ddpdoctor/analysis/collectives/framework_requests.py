"""What some ranks alone ask of a framework, which then makes a call, or leaves one out, below no line of that request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.callsites import tells_ranks_apart
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, Request, SourceCode

_ONE_RANK = re.compile(r"(?:rank|process_index|process_id|\bgpu(?:_id)?)\w*(?:\(\))? (?P<how>==|!=) (?P<rank>\d+)\b")
_THE_FIRST = re.compile(
    r"(?P<not>\bnot [\w.]{0,80})?\b(?:is_(?:local_|world_|global_)?(?:main_process|process_zero|zero|primary|master|main)"
    r"|is_global_zero|master_process|main_process)\b"
)


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


def ranks_under(condition: Condition, ranks: Sequence[int]) -> tuple[int, ...]:
    """Those of `ranks` in this branch of a test that compares the rank with a number, or asks for the first one.

    A local rank counts as the rank. Empty where the test does neither.
    """
    one, first = _ONE_RANK.search(condition.test), _THE_FIRST.search(condition.test)
    if one is not None:
        wanted, same = int(one["rank"]), one["how"] == "=="
    elif first is not None:
        wanted, same = 0, first["not"] is None
    else:
        return ()
    return tuple(rank for rank in ranks if (rank == wanted) is (same is (condition.branch == 0)))
