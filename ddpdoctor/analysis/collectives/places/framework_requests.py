"""What some ranks alone ask of a framework, which then makes a call, or leaves one out, below no line of that request."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.places.rank_tests import (
    asks_for_counts,
    is_the_same_everywhere,
    ranks_under,
    tells_ranks_apart,
)
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, Request, SourceCode

_RAISES_AN_EXIT = "raise SystemExit("
_ENDS_WELL = re.compile(r"(?:raise SystemExit|(?:sys\.|os\._)?exit|quit)(?:\((?:0|None)?\))?")


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A request that is under a test of the rank."""

    request: Request
    """What the program asks the framework for."""
    condition: Condition
    """The test of the rank that decides who asks."""

    @property
    def frame(self) -> Frame:
        """Its line."""
        return line_of(self.request)

    def made_by(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Those of `ranks` that the test lets through, as far as it names one; empty where it does not, or where all pass."""
        named = ranks_under(self.condition, ranks)
        return named if len(named) < len(ranks) else ()


def line_of(request: Request) -> Frame:
    """Where the request stands."""
    return Frame(file=request.file, line=request.line, function=request.function)


def rank_requests(code: SourceCode | None, wants: str) -> Iterator[RankRequest]:
    """The requests of this kind that not every rank makes."""
    for request in code.requests if code is not None else ():
        condition = next((one for one in request.conditions if request.wants == wants and tells_ranks_apart(one)), None)
        if condition is not None:
            yield RankRequest(request, condition)


def only_request(code: SourceCode | None, wants: str) -> RankRequest | None:
    """The only request of this kind in the source, with the test above it that ranks may answer differently.

    None where there are several, where a test of the rank is above it (see `rank_requests`), or where all ranks make it.
    """
    found = [request for request in (code.requests if code is not None else ()) if request.wants == wants]
    if len(found) != 1 or any(map(tells_ranks_apart, found[0].conditions)):
        return None
    differing = [one for one in found[0].conditions if not (is_the_same_everywhere(one) or asks_for_counts(one.test))]
    return RankRequest(found[0], differing[-1]) if differing else None


def left_to_a_side(
    code: SourceCode | None, wants: str, ranks: Sequence[int], sides: Sequence[Sequence[int]]
) -> dict[Request, Sequence[int]]:
    """The requests of this kind that a test of the rank leaves to one of `sides`, with its ranks; `ranks` where it names none."""
    everyone = sorted(rank for side in sides for rank in side)
    return {
        asked.request: made or ranks
        for asked in rank_requests(code, wants)
        if not (made := asked.made_by(everyone)) or {*made} in map(set, sides)
    }


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


def exits_with_an_error(
    code: SourceCode | None, printed: Sequence[str], ranks: Sequence[int], others: Sequence[int]
) -> Request | None:
    """The `raise SystemExit(status)` by which these `ranks`, and not the `others`, ended the program with an error.

    That is the one whose message was `printed`, or the only one that no test of the rank keeps from exactly them.
    Python keeps no such exception: the source is all that shows it.
    """
    raised = {
        request: request.text.removeprefix(_RAISES_AN_EXIT).removesuffix(")")
        for request in (code.requests if code is not None else ())
        if request.text.startswith(_RAISES_AN_EXIT) and not _ENDS_WELL.fullmatch(request.text)
    }
    printed_by = [request for request, status in raised.items() if any(_is_printed(status, line) for line in printed)]
    if printed_by:
        return printed_by[0] if len(printed_by) == 1 else None
    asked = [one for one in rank_requests(code, "stop") if one.request in raised]
    named = [one.request for one in asked if {*one.made_by(sorted({*ranks, *others}))} == {*ranks}]
    return named[0] if len(named) == len(raised) == 1 else None


def _is_printed(status: str, line: str) -> bool:
    """Whether a line is the message that the expression `status` is, where it is a text of its own."""
    try:
        message = ast.literal_eval(status)
    except (ValueError, SyntaxError):
        return False
    return isinstance(message, str) and bool(message.strip()) and line.strip().endswith(message.strip().split("\n")[0])
