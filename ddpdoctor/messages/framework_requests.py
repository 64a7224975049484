"""The lines at which some ranks alone asked a framework for a call, or for the end of its loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.collectives.places.framework_requests import RankRequest
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.model import Where

SHOWN_CHARACTERS = 80


def where(asked: RankRequest | None, ranks: Sequence[int]) -> Iterator[Where]:
    """The line of the request, once per rank; nothing without a request."""
    for rank in ranks if asked is not None else ():
        assert asked is not None
        text = asked.request.text
        shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
        why = "depends on the rank" if asked.condition.asks else condition_text(asked.condition, asked.request.file)
        note = f"`{shown}` {why}"
        yield Where.at(asked.frame, rank=rank, note=note)
