"""Which call a rank left out before a send or receive that waits, as it always made it before, or which loop it left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.programs.call_patterns import always_next
from ddpdoctor.analysis.collectives.programs.usual_course import usual_instead
from ddpdoctor.analysis.collectives.recorders.agents_transfers import SENDS
from ddpdoctor.analysis.collectives.recorders.call_sequences import users_stack
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.collectives.transfers.p2p_matching import Unmatched
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import Loop, SourceCode, place_of


@dataclass(frozen=True, slots=True)
class Transfer:
    """A send or receive of one rank."""

    op: str
    """`send` or `recv`."""
    partner: int
    """The rank at its other end."""
    place: Frame | None
    """The line of the call."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What one rank of a circle left out."""

    by: Unmatched
    """The call in which that rank waits."""
    usual: Transfer
    """The call that it made at this point in all turns before."""


def collective_left_out(one: Unmatched, timeline: Timeline) -> IssuedCall | None:
    """The collective that the partner waits in, where the waiting rank had always made it before this transfer, and has not now.

    The partner does what it always did: then it is not the one that lacks a call.
    """
    waits = timeline.waiting(one.partner)
    if waits is None or waits.calls[0].point_to_point:
        return None
    mine, theirs = (timeline.call_index.records[rank] for rank in (one.rank, one.partner))
    usual, made = always_next(mine.call[: one.entry]), theirs.call[waits.entry]
    if usual is None or always_next(theirs.call[: waits.entry]) != made:
        return None
    asked = [(record, record.calls[number]) for record, number in ((mine, usual), (theirs, made))]
    same = len({(record.groups[call.group].name, call.op) for record, call in asked}) == 1
    return waits if same and mine.call[one.entry] != usual else None


def loops_left(one: Unmatched, timeline: Timeline, code: SourceCode | None) -> list[tuple[Frame, Loop]]:
    """The loops of the last transfer that the partner made with the waiting rank, where it waits behind them in a collective now.

    Outermost first, each with a line in it.
    """
    waits, record = timeline.waiting(one.partner), timeline.call_index.records.get(one.partner)
    if waits is None or record is None or waits.calls[0].point_to_point:
        return []
    made = (entry for entry in range(waits.entry - 1, -1, -1) if _is_between(record, entry, one))
    entry = next(made, None)
    if entry is None:
        return []
    around = {(frame.file, loop) for frame in waits.stack for loop in _loops_around(frame, code)}
    found = [(frame, loop) for frame in users_stack(record, record.stack[entry]) for loop in _loops_around(frame, code)]
    return [] if any((frame.file, loop) in around for frame, loop in found) else found


def _is_between(record: FlightRecord, entry: int, one: Unmatched) -> bool:
    """Whether this is a send or receive of the partner with the waiting rank."""
    call = record.calls[record.call[entry]]
    places = (call.source, call.target)
    if not call.point_to_point or None in places:
        return False
    members = record.groups[call.group].ranks
    ends = {
        members[place] if members is not None and place < len(members) else place
        for place in places
        if place is not None
    }
    return ends == {one.rank, one.partner}


def _loops_around(frame: Frame, code: SourceCode | None) -> Sequence[Loop]:
    place = place_of(code, frame)
    return place.loops if place is not None else ()


def transfer_left_out(
    circle: Sequence[Unmatched], timeline: Timeline | None, calls: PerRank[CollectiveCalls] | None
) -> LeftOut | None:
    """What one rank of a circle left out, where the others make what they made at this point in all turns before.

    Only sends and receives among the ranks of the circle count. None where no rank, or more than one, is out of turn, or where
    the calls of one are no turns of a loop.
    """
    ranks = {one.rank for one in circle}
    if {one.partner for one in circle} != ranks or len(ranks) < len(circle):
        return None
    agents = by_rank(calls) if calls is not None else {}
    found: list[LeftOut] = []
    for one in circle:
        if timeline is not None:
            made = [*_recorded(timeline.call_index.records[one.rank], one.rank, one.entry, ranks)]
        else:
            made = [*_of_agent(agents[one.rank], ranks)] if one.rank in agents else []
        numbers = {transfer: number for number, transfer in enumerate(dict.fromkeys(made))}
        usual = usual_instead([numbers[transfer] for transfer in made])
        if usual is None:
            return None
        if usual != numbers[made[-1]]:
            found.append(LeftOut(one, [*numbers][usual]))
    return found[0] if len(found) == 1 else None


def _recorded(record: FlightRecord, rank: int, last: int, partners: Collection[int]) -> Iterator[Transfer]:
    for entry in range(last + 1):
        call = record.calls[record.call[entry]]
        place = call.target if call.op == "send" else call.source
        if not call.point_to_point or call.op not in ("send", "recv") or place is None:
            continue
        members = record.groups[call.group].ranks
        partner = members[place] if members is not None and place < len(members) else place
        if partner in partners and partner != rank:
            stack = users_stack(record, record.stack[entry])
            yield Transfer(call.op, partner, stack[-1] if stack else None)


def _of_agent(calls: CollectiveCalls, partners: Collection[int]) -> Iterator[Transfer]:
    """Up to the first that waits."""
    for call in calls.calls:
        if call.peer in partners and call.peer is not None:
            yield Transfer("send" if call.op in SENDS else "recv", call.peer, call.place)
        if not call.returned:
            return
