"""Calls that some ranks made between two iterations and the others did not: their lines and conditions."""

from __future__ import annotations

from ddpdoctor.analysis.collectives.places.conditions_above import condition_over, rank_test
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.model import Where


def called_by_some(rank: int, call: CollectiveCall, timeline: Timeline | None, code: SourceCode | None) -> Where:
    """The line of this call, and the condition that it is under."""
    place = call.place
    assert place is not None
    stack = above_call(rank, call, timeline) or (place,)
    condition = rank_test(stack, code) or condition_over(stack, code)
    note = f"{call.op} #{call.seq}" + (
        f", {condition_text(condition[0], condition[1].file)}" if condition is not None else ""
    )
    return Where.at(place, rank=rank, note=note)


def above_call(rank: int, call: CollectiveCall, timeline: Timeline | None) -> tuple[Frame, ...]:
    """The frames of this call above torch, outermost first, where a recorder has them; iterations are of the default group."""
    if timeline is None or call.seq is None:
        return ()
    default = next((group for group in timeline.groups if not group.name), None)
    issued = timeline.issued(default, rank, call.seq) if default is not None else None
    return issued.program if issued is not None and issued.place == call.place else ()
