"""Process groups with the same members as one sequence of calls: every rank makes the calls of all of them in one order.

Ranks that wait for each other in two such groups made the same calls before. If the source shows why they diverged, by a loop
that one side has left or a condition that one side did not pass, then the calls differ, and not the order of the groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import attrgetter

from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.relations import Relation
from ddpdoctor.analysis.collectives.recorders.call_sequences import CallSequence, GroupSequences, users_stack
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, FlightRecord, ProcessGroup, State
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped

_TELLING = {Relation.PAST, Relation.WITHIN, Relation.CONDITIONAL, Relation.UNCONDITIONAL}


def in_one_order(
    per_group: Sequence[GroupSequences], records: Mapping[int, FlightRecord], code: SourceCode | None
) -> tuple[GroupSequences, ...]:
    """The groups, those with the same members as one where their ranks diverged between two calls of different groups."""
    alike = grouped((one.members, one) for one in per_group).values()
    return tuple(one for groups in alike for one in (_as_one(groups, records, code) or groups))


def _as_one(
    groups: Sequence[GroupSequences], records: Mapping[int, FlightRecord], code: SourceCode | None
) -> list[GroupSequences] | None:
    if len(groups) < 2 or code is None:
        return None
    ranks = groups[0].members
    if len({_waits_in(records[rank]) for rank in ranks if rank in records}) < 2:
        return None
    made = {rank: [*_calls_of(rank, groups)] for rank in ranks if rank in records}
    if len(made) < len(ranks) or not _are_complete(groups):
        return None
    common = min(map(len, made.values()))
    place = next((at for at in range(common) if len({calls[at].what for calls in made.values()}) > 1), None)
    if place is None:
        return None
    apart = {rank: calls[place] for rank, calls in made.items()}
    waits = all(records[rank].state[call.entry] is not State.DONE for rank, call in apart.items())
    if not waits or len({call.group for call in apart.values()}) < 2 or not _is_explained(apart, records, code):
        return None
    sequences = tuple(
        CallSequence(
            rank=rank,
            first=1,
            calls=tuple(call.call for call in calls),
            sites=tuple(call.site for call in calls),
            entries=[call.entry for call in calls],
        )
        for rank, calls in made.items()
    )
    return [GroupSequences(group=_together(groups), members=ranks, members_known=True, sequences=sequences)]


def _waits_in(record: FlightRecord) -> str | None:
    """The name of the group of the oldest call that is not complete."""
    place = next(compress(count(), map(State.DONE.__ne__, record.state)), None)
    return None if place is None else record.groups[record.calls[record.call[place]].group].name


@dataclass(frozen=True, slots=True)
class _Made:
    """A call of one of the groups."""

    entry: int
    group: int
    call: int
    site: int

    @property
    def what(self) -> tuple[int, int]:
        """What is equal on ranks that made the same call."""
        return self.group, self.call


def _calls_of(rank: int, groups: Sequence[GroupSequences]) -> Iterable[_Made]:
    """The calls of one rank in all groups, in the order in which it made them."""
    made = (
        _Made(entry, number, call, site)
        for number, group in enumerate(groups)
        if (sequence := group.sequence(rank)) is not None
        for entry, call, site in zip(sequence.entries, sequence.calls, sequence.sites, strict=True)
    )
    return sorted(made, key=attrgetter("entry"))


def _are_complete(groups: Sequence[GroupSequences]) -> bool:
    """Whether every record holds all calls of the groups, from the first one on."""
    return all(one.first == 1 and min(one.entries, default=0) >= 0 for group in groups for one in group.sequences)


def _is_explained(apart: Mapping[int, _Made], records: Mapping[int, FlightRecord], code: SourceCode) -> bool:
    """Whether the source shows how the ranks of two calls diverged."""
    sides = vote({rank: call.what for rank, call in apart.items()}).sides
    if len(sides) != 2:
        return False
    one, other = (_stack(side[0], apart, records) for side in sides)
    found = compare(one, other, code, sides)
    return found.relation in _TELLING and (found.loop is not None or found.condition is not None)


def _stack(rank: int, apart: Mapping[int, _Made], records: Mapping[int, FlightRecord]) -> tuple[Frame, ...]:
    return users_stack(records[rank], records[rank].stack[apart[rank].entry])


def _together(groups: Sequence[GroupSequences]) -> ProcessGroup:
    """Groups 1 and 3 under one name: `1+3`."""
    each = sorted((one.group for one in groups), key=attrgetter("name"))
    described = [group.description for group in each if group.description != DEFAULT_GROUP]
    return replace(
        each[0],
        name="+".join(group.name for group in each),
        description=", ".join(filter(None, described)),
        last_enqueued=None,
        last_completed=None,
    )
