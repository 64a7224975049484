"""The collectives of all ranks as a trace in the Trace Event Format, which Perfetto and chrome://tracing open.

A process of the trace is a rank, a thread is one of its process groups. The calls of a group run one after the other: a slice
begins when the call was made and the one before it had ended. Its inner slice `waits for rank N` ends when the last member has
made the call. Times are whole microseconds on the clock of the first rank.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from ddpdoctor.analysis.collectives.recorders.call_sequences import CallSequence
from ddpdoctor.analysis.collectives.recorders.clock_offsets import ClockOffsets
from ddpdoctor.analysis.collectives.recorders.matching import needs_all, operation
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline
from ddpdoctor.derivation import deriver
from ddpdoctor.evidence import Evidence, by_rank
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.recorder import Call, State
from ddpdoctor.evidence.step_times import Pace
from ddpdoctor.secrets import redact_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

STEPS = 0  # the thread of a rank that shows its iterations; those of its groups follow
SHORTEST_WAIT_NS = 10_000  # a shorter one is not worth a slice
SHORTEST_SLICE_NS = 1_000
LONGEST_WAIT_NS = 86_400 * 10**9  # from the last call to a dump; a later one is the time of a copy
UNKNOWN_END_NS = 1_000_000  # how long the last open call is drawn where the dump has no time


def chunks(evidence: Evidence) -> Iterator[str]:
    """The document in pieces, for a file; nothing where the evidence holds no flight recorder."""
    derive = deriver(evidence)
    timeline, clocks = derive(Timeline), derive(ClockOffsets)
    if timeline is None or clocks is None:
        return
    hosts = {facts.rank: facts.host for facts in evidence.ranks}
    offsets = clocks.by_rank()
    base = min(
        record.created_ns[0] + offsets.get(rank, 0)
        for rank, record in timeline.call_index.records.items()
        if record.created_ns
    )
    yield '{"displayTimeUnit":"ms","otherData":'
    yield json.dumps(_about(clocks))
    yield ',"traceEvents":[\n'
    yield ",\n".join(_names(timeline, hosts))
    shared = _Shared(timeline, offsets, base)
    for number, group in enumerate(timeline.groups, start=1):
        picture = _Group(shared, group)
        for row in range(len(picture.ranks)):
            yield from _joined(picture.events(row, tid=number))
    for rank in timeline.call_index.records:
        yield from _joined(_sends(timeline, rank, len(timeline.groups) + 1, offsets.get(rank, 0) - base))
    paces = by_rank(evidence.per_rank(Pace))
    calls = by_rank(evidence.per_rank(CollectiveCalls))
    for rank, pace in paces.items():
        yield from _joined(_iterations(rank, pace, calls.get(rank), offsets.get(rank, 0) - base))
    yield "\n]}\n"


def _joined(events: Iterator[str]) -> Iterator[str]:
    text = ",\n".join(events)
    if text:
        yield ",\n"
        yield text


def _about(clocks: ClockOffsets) -> Mapping[str, object]:
    """What a reader of the file should know of its times."""
    return {
        "written by": "ddpdoctor",
        "clock offsets, ns": {
            ",".join(map(str, clock.ranks)): {"added": clock.offset, "at least": clock.low, "at most": clock.high}
            for clock in clocks.each
        },
    }


def _names(timeline: Timeline, hosts: Mapping[int, str]) -> Iterator[str]:
    clean = functools.cache(redact_text)
    for rank, record in timeline.call_index.records.items():
        host = f" ({clean(hosts[rank])})" if hosts.get(rank) else ""
        yield _meta("process_name", rank, 0, name=f"rank {rank}{host}")
        yield _meta("process_sort_index", rank, 0, sort_index=rank)
        yield _meta("thread_name", rank, STEPS, name="iterations")
        if any(call.point_to_point for call in record.calls):
            yield _meta("thread_name", rank, len(timeline.groups) + 1, name="sends and receives")
    for number, group in enumerate(timeline.groups, start=1):
        name = clean(f"{group.name or 'default group'} ({group.backend})")
        for rank in group.recorded:
            yield _meta("thread_name", rank, number, name=name)


def _meta(kind: str, pid: int, tid: int, **args: object) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args})


class _Shared:
    """What the groups of a job have in common: the times of each rank's entries as arrays, and texts that many slices share."""

    def __init__(self, timeline: Timeline, offsets: Mapping[int, int], base: int) -> None:
        import numpy as np

        self.timeline, self.offsets, self.base = timeline, offsets, base
        self.meets = np.array([needs_all(calls) for calls in timeline.call_index.calls])
        self._entries: dict[int, tuple[Times, NDArray[np.bool_], Times | None]] = {}
        self._tails: dict[tuple[int, int], str] = {}

    def entries(self, rank: int) -> tuple[Times, NDArray[np.bool_], Times | None]:
        """Of each entry of a rank's recorder: when it was created, whether it is complete, and when it was (None: not known)."""
        import numpy as np

        if rank not in self._entries:
            record, shift = self.timeline.call_index.records[rank], self.offsets.get(rank, 0) - self.base
            done = np.fromiter((state is State.DONE for state in record.state), dtype=bool, count=len(record.state))
            ended = None
            if record.completed_ns:
                completed = np.asarray(record.completed_ns, dtype=np.int64)
                ended = np.where(completed > 0, completed + shift, np.iinfo(np.int64).min)
            self._entries[rank] = np.asarray(record.created_ns, dtype=np.int64) + shift, done, ended
        return self._entries[rank]

    def tail(self, call: int, site: int) -> str:
        """The name and the first arguments of the slices of one call at one line, which thousands of them share."""
        if (call, site) not in self._tails:
            calls, stack = self.timeline.call_index.calls[call], self.timeline.call_index.sites[site]
            self._tails[call, site] = _named(
                operation(calls) if calls else "unknown", calls, stack[-1] if stack else None
            )
        return self._tails[call, site]


class _Group:
    """The calls of one process group as a table: a row per rank, a column per sequence number."""

    def __init__(self, shared: _Shared, group: GroupTimeline) -> None:
        import numpy as np

        sequences = group.group_sequences.sequences
        self._shared, self._group, self._sequences = shared, group, sequences
        self.ranks = [each.rank for each in sequences]
        self._first = min(each.first for each in sequences)
        shape = (len(sequences), max(each.last for each in sequences) + 1 - self._first)
        absent = np.iinfo(np.int64).min
        created, ended = np.full(shape, absent), np.full(shape, absent)
        self._there = np.zeros(shape, dtype=bool)
        self._done = np.ones(shape, dtype=bool)
        meet = np.zeros(shape, dtype=bool)
        for row, each in enumerate(sequences):
            begun, done, completed = shared.entries(each.rank)
            entries = np.asarray(each.entries)
            known = np.flatnonzero(entries >= 0)
            at, entries = known + (each.first - self._first), entries[known]
            self._there[row, at] = True
            meet[row, at] = shared.meets[np.asarray(each.calls)[known]]
            created[row, at] = begun[entries]
            self._done[row, at] = done[entries]
            if completed is not None:
                ended[row, at] = completed[entries]
        arrived = created.max(axis=0)  # when the last member made the call
        self._last = created.argmax(axis=0)
        horizon = _horizon(shared.timeline, shared.offsets, shared.base, int(arrived.max()))
        ended = np.where(ended > absent, ended, np.where(meet, np.maximum(arrived, created), created))
        ended = np.where(self._done, ended, horizon)
        self._start, self._end = _one_after_the_other(created, ended, self._there)
        missing = (~self._there).sum(axis=0) + len(set(group.members) - set(self.ranks))
        until = np.where(missing > 0, np.where(self._done, arrived, horizon), arrived)
        self._waits = np.where(meet, np.minimum(until, self._end) - self._start, 0)
        hidden = np.where(self._there, self._start, np.iinfo(np.int64).max)
        order = hidden.argsort(axis=0, kind="stable")
        members = self._there.sum(axis=0)
        self._is_first = np.zeros(shape, dtype=bool)
        self._is_first[order[0], np.arange(shape[1])] = True
        self._is_last = np.zeros(shape, dtype=bool)
        self._is_last[order[members - 1, np.arange(shape[1])], np.arange(shape[1])] = True
        self._members = members
        self._late = [*map(int, missing)]
        self._inner_texts: dict[tuple[int, int, int], dict[int, str]] = {}

    def events(self, row: int, *, tid: int) -> Iterator[str]:
        """The slices of one rank."""
        import numpy as np

        each = self._sequences[row]
        columns = np.flatnonzero(self._there[row])
        start, end, wait = self._start[row, columns], self._end[row, columns], self._waits[row, columns]
        first_us, length_us = start // 1000, end // 1000 - start // 1000
        head = f'{{"ph":"X","pid":{each.rank},"tid":{tid},"ts":'
        inner = self._inner(each, tid)
        parts = [inner[column] for column in columns.tolist()]
        special = self._is_first[row] | self._is_last[row] | ~self._done[row]
        for place in np.flatnonzero(special[columns]).tolist():
            parts[place] = self._text(each, row, int(columns[place]), tid)
        yield from [
            f'{head}{at},"dur":{length}{part}'
            for at, length, part in zip(first_us.tolist(), length_us.tolist(), parts, strict=True)
        ]
        for place in np.flatnonzero(wait >= SHORTEST_WAIT_NS).tolist():
            column = int(columns[place])
            whom = _never(self._late[column]) if self._late[column] else f"rank {self.ranks[self._last[column]]}"
            until = int(start[place] + wait[place]) // 1000
            yield (
                f'{head}{first_us[place]},"dur":{until - first_us[place]},"name":"waits for {whom}","cat":"wait",'
                f'"args":{{"seq":{self._first + column}}}}}'
            )

    def _inner(self, each: CallSequence, tid: int) -> Mapping[int, str]:
        """By column what follows the times of a call that is complete and neither the first nor the last of its flow.

        Ranks that did the same share it.
        """
        key = id(each.calls), id(each.sites), each.first
        if key not in self._inner_texts:
            self._inner_texts[key] = {
                column: self._text(each, None, column, tid)
                for column in range(each.first - self._first, each.last + 1 - self._first)
            }
        return self._inner_texts[key]

    def _text(self, each: CallSequence, row: int | None, column: int, tid: int) -> str:
        """The flow, the name and the arguments of one call; without a row, of one in the middle of its flow."""
        seq = self._first + column
        flow = ""
        if self._members[column] > 1:
            into = "" if row is not None and self._is_first[row, column] else ',"flow_in":true'
            out = "" if row is not None and self._is_last[row, column] else ',"flow_out":true'
            flow = f',"bind_id":"{(tid << 40) + seq:#x}"{into}{out}'
        open_ = "" if row is None or self._done[row, column] else ',"complete":false'
        place = seq - each.first
        return f'{flow},{self._shared.tail(each.calls[place], each.sites[place])},"seq":{seq}{open_}}}}}'


def _never(ranks: int) -> str:
    return "1 rank that never calls" if ranks == 1 else f"{ranks} ranks that never call"


def _one_after_the_other(created: Times, ended: Times, there: NDArray[np.bool_]) -> tuple[Times, Times]:
    """When each call of each rank began to run and ended, where a group's calls run in the order in which they were made."""
    import numpy as np

    start, end = created.copy(), ended.copy()
    free = np.full(len(created), np.iinfo(np.int64).min)
    for column in range(created.shape[1]):
        start[:, column] = np.maximum(start[:, column], free)
        end[:, column] = np.maximum(end[:, column], start[:, column] + SHORTEST_SLICE_NS)
        free = np.where(there[:, column], end[:, column], free)
    return start, end


def _horizon(timeline: Timeline, offsets: Mapping[int, int], base: int, last_call: int) -> int:
    """Until when calls that are not complete are drawn: the time of the latest dump, where that can be."""
    taken = [
        int(record.taken_at * 1e9) + offsets.get(rank, 0) - base
        for rank, record in timeline.call_index.records.items()
        if record.taken_at is not None
    ]
    return max(last_call + UNKNOWN_END_NS, *(at for at in taken if at < last_call + LONGEST_WAIT_NS), 0)


def _named(name: str, calls: Sequence[Call], place: Frame | None) -> str:
    """`"name":...,"cat":...,"args":{...` without the last brace, so that the caller adds what differs."""
    arguments: dict[str, object] = {}
    if sizes := [size for call in calls for size in call.input_sizes or call.output_sizes]:
        arguments["shape"] = ", ".join("x".join(map(str, size)) or "scalar" for size in sizes[:8])
        arguments["dtype"] = ", ".join(sorted({dtype for call in calls for dtype in call.input_dtypes}))
    if place is not None:
        arguments["line"] = f"{PurePath(place.file).name}:{place.line} in {place.function}"
    texts = redact_text(json.dumps(arguments)[:-1])
    return f'"name":{redact_text(json.dumps(name))},"cat":"collective","args":{texts}' + (
        "" if arguments else '"of":"unknown"'
    )


def _sends(timeline: Timeline, rank: int, tid: int, shift: int) -> Iterator[str]:
    """The sends and receives of one rank, one after the other."""
    record = timeline.call_index.records[rank]
    if not any(call.point_to_point for call in record.calls):
        return
    free = 0
    for position, number in enumerate(record.call):
        call = record.calls[number]
        if not call.point_to_point:
            continue
        stack = record.stack_of(position)
        tail = _named(_peer(call), (call,), next((frame for frame in stack if is_users(frame.file)), None))
        start = max(free, record.created_ns[position] + shift)
        completed = (
            record.completed_ns[position] + shift if record.completed_ns and record.completed_ns[position] else 0
        )
        free = max(start + SHORTEST_SLICE_NS, completed)
        head = f'{{"ph":"X","pid":{rank},"tid":{tid},"ts":{start // 1000},"dur":{free // 1000 - start // 1000},{tail}'
        open_ = "" if record.state[position] is State.DONE else ',"complete":false'
        yield f'{head},"seq":{record.seq[position]}{open_}}}}}'


def _peer(call: Call) -> str:
    return f"{call.op} {call.source} to {call.target}" if call.source is not None else call.op


def _iterations(rank: int, pace: Pace, calls: CollectiveCalls | None, shift: int) -> Iterator[str]:
    """A marker where each forward begins, and a slice while the rank waits for a batch."""
    head = f'"pid":{rank},"tid":{STEPS},"ts":'
    last = calls.forwards[-1].number if calls is not None and calls.forwards else len(pace.forward_ns)
    for number, began in enumerate(pace.forward_ns, start=last - len(pace.forward_ns) + 1):
        yield f'{{"ph":"i","s":"t",{head}{(began + shift) // 1000},"name":"forward {number}","cat":"step"}}'
    for asked, drawn in zip(pace.asked_ns, pace.drawn_ns, strict=True):
        if drawn - asked >= SHORTEST_WAIT_NS:
            times = f'{(asked + shift) // 1000},"dur":{(drawn - asked) // 1000}'
            yield f'{{"ph":"X",{head}{times},"name":"waits for its batch","cat":"data"}}'
