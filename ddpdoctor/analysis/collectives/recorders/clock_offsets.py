"""How far the clocks of hosts are apart, from collectives that their ranks made together.

A collective in which every rank needs the data of all others ends nowhere before the last rank has called it. Of two hosts A
and B, each such collective therefore bounds what must be added to the clock of B: the last call on A, by A's clock, came
before the first end on B, and the other way round. A watchdog notices an end late, which makes the bounds wider and not wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpdoctor.analysis.collectives.recorders.matching import needs_all
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.grouping import grouped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

LEAST_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """How far one clock is from that of the first rank, as far as collectives tell."""

    ranks: tuple[int, ...]
    """The ranks whose times are of this clock."""
    offset: int = 0
    """What to add to their times, in nanoseconds: 0 where that lies between the bounds, else their middle."""
    low: int | None = None
    """The least that it can be, in nanoseconds; None where no collective tells."""
    high: int | None = None
    """The most that it can be, in nanoseconds; None where no collective tells."""


@dataclass(frozen=True, slots=True)
class ClockOffsets:
    """The clocks of all ranks."""

    each: tuple[ClockOffset, ...]
    """One per host, or per rank where the evidence does not say which ranks share a host; the reference first."""

    def by_rank(self) -> Mapping[int, int]:
        """What to add to the times of each rank, in nanoseconds."""
        return {rank: clock.offset for clock in self.each for rank in clock.ranks}


def derive(records: PerRank[FlightRecord], timeline: Timeline) -> ClockOffsets:
    """The offsets of all clocks against that of the lowest rank; those of which nothing tells are left as they are."""
    clocks = grouped((entry.host or entry.rank, entry.rank) for entry in records)
    groups = sorted(timeline.groups, key=lambda group: -len(group.recorded))
    spans = [span for group in groups if (span := _span(timeline, group)) is not None]
    first, *others = [tuple(ranks) for ranks in clocks.values()]
    known = {first: ClockOffset(ranks=first, low=0, high=0)}
    waiting = [*others]
    while waiting:
        for ranks in waiting:
            found = _against(known, ranks, spans)
            if found is not None:
                known[ranks] = found
                break
        else:
            break
        waiting.remove(ranks)
    return ClockOffsets(tuple(known.get(ranks, ClockOffset(ranks=ranks)) for ranks in (first, *others)))


@dataclass(frozen=True, slots=True)
class _Span:
    """The calls of a group that all its recorded ranks made and that need all of them: when each was made, and ended."""

    ranks: Mapping[int, int]
    created: Times
    completed: Times


def _span(timeline: Timeline, group: GroupTimeline) -> _Span | None:
    sequences = group.group_sequences.sequences
    if len(sequences) < 2:
        return None
    first, last = max(each.first for each in sequences), min(each.last for each in sequences)
    if last < first:
        return None
    records = timeline.call_index.records
    if not all(records[each.rank].completed_ns for each in sequences):
        return None
    import numpy as np

    rows = list(_columns(timeline, group, first, last))
    entries = np.array([row[0] for row in rows])
    created, completed = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    synchronise = np.array([needs_all(calls) for calls in timeline.call_index.calls])
    numbers = np.array([each.calls[first - each.first : last + 1 - each.first] for each in sequences])
    usable = (entries >= 0).all(axis=0) & (completed > 0).all(axis=0) & synchronise[numbers].all(axis=0)
    if usable.sum() < LEAST_CALLS:
        return None
    return _Span({each.rank: place for place, each in enumerate(sequences)}, created[:, usable], completed[:, usable])


def _columns(timeline: Timeline, group: GroupTimeline, first: int, last: int) -> Iterator[tuple[Times, Times, Times]]:
    import numpy as np

    for each in group.group_sequences.sequences:
        record = timeline.call_index.records[each.rank]
        entries = np.asarray(each.entries[first - each.first : last + 1 - each.first])
        created = np.asarray(record.created_ns, dtype=np.int64)
        completed = np.asarray(record.completed_ns, dtype=np.int64)
        yield entries, created[entries], completed[entries]


def _against(
    known: Mapping[tuple[int, ...], ClockOffset], ranks: tuple[int, ...], spans: list[_Span]
) -> ClockOffset | None:
    """The offset of the clock of `ranks` against the first known clock that shares a group with it."""
    for span in spans:
        mine = [span.ranks[rank] for rank in ranks if rank in span.ranks]
        if not mine:
            continue
        for others, clock in known.items():
            theirs = [span.ranks[rank] for rank in others if rank in span.ranks]
            if not theirs:
                continue
            called, ended = span.created[mine].max(axis=0), span.completed[mine].min(axis=0)
            their_call, their_end = span.created[theirs].max(axis=0), span.completed[theirs].min(axis=0)
            low = int((their_call - ended).max()) + clock.offset
            high = int((their_end - called).min()) + clock.offset
            return ClockOffset(ranks=ranks, offset=0 if low <= 0 <= high else (low + high) // 2, low=low, high=high)
    return None
