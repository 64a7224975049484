"""A rank waits in a send or a receive whose partner never made the matching call."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.handshake import Handshakes, Unmatched
from ddpdoctor.analysis.timeline import Timeline
from ddpdoctor.analysis.wording import duration, witnesses
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP313",
    name="p2p-unmatched",
    summary="a send or a receive waits for a partner that does not come",
    severity=Severity.FAIL,
    remedy="make the partner's call on the rank that is named, in the same order and for the same group",
    explains=("DDP305", "DDP307", "DDP314", "DDP316", "DDP318", "DDP408"),
)


def check(handshakes: Handshakes, timeline: Timeline | None) -> Iterator[Finding]:
    """The missing partners, and who waits for them at which line."""
    waiting = {one.rank for one in handshakes.unmatched}
    for one in handshakes.unmatched:
        does = timeline.waiting(one.partner) if timeline is not None and one.partner not in waiting else None
        meanwhile = f"; rank {one.partner} waits in {does.name}" if does is not None else ""
        yield RULE.finding(
            f"{_said(one)}{meanwhile}",
            ranks=(one.partner,),
            where=[*(witnesses({one.partner: does}, [one.partner]) if does is not None else ()), *_where(one)],
            waiting=one.rank,
            kind=one.kind,
        )


def _said(one: Unmatched) -> str:
    if one.kind == "recv":
        return f"rank {one.rank} waits in recv from rank {one.partner}, which did not send"
    return f"rank {one.rank} waits in send to rank {one.partner}, which does not receive"


def _where(one: Unmatched) -> list[Where]:
    if one.place is None:
        return []
    waits = f", waits {duration(one.seconds)}" if one.seconds is not None else ""
    note = f"{one.kind} {'from' if one.kind == 'recv' else 'to'} rank {one.partner}{waits}"
    return [Where(rank=one.rank, file=one.place.file, line=one.place.line, function=one.place.function, note=note)]
