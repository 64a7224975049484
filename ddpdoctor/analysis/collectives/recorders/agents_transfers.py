"""Sends and receives that a recorder does not hold (gloo), as entries of it: from what the agent wrote down in the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import merge

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State

SENDS = ("send", "isend")
RECEIVES = ("recv", "irecv")


def with_transfers(records: PerRank[FlightRecord], calls: PerRank[CollectiveCalls] | None) -> PerRank[FlightRecord]:
    """The records, with the sends and receives that only the agent saw, in the order in which they were made.

    An asynchronous one is under way only while the rank waits for it; else it counts as done. One from any rank has no partner
    to wait for, and is left out.
    """
    agents = {entry.rank: entry.value for entry in calls or () if any(map(_is_transfer, entry.value.calls))}
    if not agents:
        return records
    entries = (
        Entry(entry.rank, entry.host, _with(entry.value, entry.rank, agents[entry.rank]))
        if entry.rank in agents
        else entry
        for entry in records
    )
    return PerRank(tuple(entries), launched=records.launched)


def _is_transfer(call: CollectiveCall) -> bool:
    known = call.began_ns is not None and call.seq is not None and call.peer is not None
    return known and call.op in (*SENDS, *RECEIVES)


def _with(record: FlightRecord, rank: int, issued: CollectiveCalls) -> FlightRecord:
    if any(call.point_to_point for call in record.calls):
        return record
    transfers = [call for call in issued.calls if _is_transfer(call)]
    groups = _groups(record, transfers, {group.group: group.ranks for group in issued.groups})
    calls = {call: number for number, call in enumerate(record.calls)}
    frames = {frame: number for number, frame in enumerate(record.frames)}
    stacks = {stack: number for number, stack in enumerate(record.stacks)}
    rows = []
    for transfer in transfers:
        place = (frames.setdefault(transfer.place, len(frames)),) if transfer.place is not None else ()
        call = calls.setdefault(_call(transfer, rank, groups), len(calls))
        state = State.DONE if transfer.returned else State.STARTED
        stack = stacks.setdefault(place, len(stacks))
        began = transfer.began_ns or 0
        rows.append((began, call, transfer.seq or 0, stack, state, began if transfer.returned else 0))
    completed = record.completed_ns or (0,) * len(record)
    own = zip(record.created_ns, record.call, record.seq, record.stack, record.state, completed, strict=True)
    created, called, seq, stack_of, states, completed = zip(*merge(own, rows, key=lambda row: row[0]), strict=True)
    return replace(
        record,
        groups=groups,
        calls=tuple(calls),
        frames=tuple(frames),
        stacks=tuple(stacks),
        call=called,
        seq=seq,
        stack=stack_of,
        state=states,
        created_ns=created,
        completed_ns=completed if record.completed_ns else (),
        lost=record.lost or _lost(issued.calls),
    )


def _groups(
    record: FlightRecord, transfers: Sequence[CollectiveCall], members: Mapping[str, tuple[int, ...]]
) -> tuple[ProcessGroup, ...]:
    """The groups of the record, and those of the transfers that it does not have."""
    known = {group.name for group in record.groups}
    names = dict.fromkeys(transfer.group for transfer in transfers if transfer.group not in known)
    others = (ProcessGroup(backend="gloo", name=name, description="", ranks=members.get(name)) for name in names)
    return (*record.groups, *others)


def _lost(calls: Sequence[CollectiveCall]) -> int:
    """How many transfers were made before those that the agent still holds; one from any rank counts, too."""
    first: dict[str, int] = {}
    for call in calls:
        if call.began_ns is not None:
            first.setdefault(call.group, call.seq or 1)
    return sum(number - 1 for number in first.values())


def _call(transfer: CollectiveCall, rank: int, groups: Sequence[ProcessGroup]) -> Call:
    number = next(number for number, group in enumerate(groups) if group.name == transfer.group)
    members = groups[number].ranks
    peer = transfer.peer if transfer.peer is not None else rank
    sends = transfer.op in SENDS
    source, target = (rank, peer) if sends else (peer, rank)
    return Call(
        group=number,
        op="send" if sends else "recv",
        point_to_point=True,
        source=_place(members, source),
        target=_place(members, target),
        tag=transfer.tag,
    )


def _place(members: tuple[int, ...] | None, rank: int) -> int:
    """The rank as the recorder counts it: within the group, where its members are known."""
    return members.index(rank) if members is not None and rank in members else rank
