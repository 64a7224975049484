"""Ranks whose device, or the thread that asks it, has stopped: they did not complete what their peers completed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.hangs.operations import ROOTED
from ddpdoctor.analysis.hangs.outstanding import Outstanding
from ddpdoctor.analysis.hangs.outstanding_transfers import EndedByPartner

WITHOUT_DEVICE = ("gloo",)  # its recorder counts a call that failed as one that is complete
SENT_BY_THE_ROOT = ("broadcast", "scatter", "_broadcast_oop")  # others with a root end there last


@dataclass(frozen=True, slots=True, kw_only=True)
class UncompletedCall:
    """A collective that a rank enqueued and has not completed, while peers of the group have; or a send."""

    rank: int
    """The rank that did not complete it."""
    operation: IssuedCall
    """The oldest one of its group that the ring buffer still holds."""
    not_completed: int
    """The number of the first one in its group. Where it is less than that of `operation`, the ring buffer has lost it."""
    completed: int
    """The number of the last collective of the group that the rank has completed."""
    peers_completed: Mapping[int, int]
    """The same of those peers that are further."""
    transfer: str = ""
    """For a send its name, `the send from rank 0 to rank 1`; numbers count the sends between the two ranks then. Else empty."""


def stopped_ranks(
    timeline: Timeline,
    outstanding: Outstanding,
    completed: Mapping[int, Mapping[int, int]],
    stale: Collection[int],
    *,
    without_dump: Collection[int],
) -> Iterator[UncompletedCall]:
    """Per rank the oldest collective, else send, that it enqueued and has not completed, and that peers have.

    `completed` has by `id` of a group what `completed_by` tells of it, `stale` are the ranks whose dumps are older than that.
    The last collective that one of those `without_dump` took part in may have ended on some peers and not on others.
    """
    oldest: dict[int, UncompletedCall] = {}
    for group in timeline.groups:
        if group.backend in WITHOUT_DEVICE or group.mismatches:  # calls with one number are not one operation then
            continue
        ended = completed.get(id(group), {})
        for rank in (rank for rank in group.open if rank not in stale):
            one = _behind_in(group, rank, timeline, outstanding, ended, without_dump)
            if one is not None and (rank not in oldest or one.operation.entry < oldest[rank].operation.entry):
                oldest[rank] = one
    for send in outstanding.ended_by_partners:
        if send.call.rank not in stale and _backend(timeline, send.call) not in WITHOUT_DEVICE:
            oldest.setdefault(send.call.rank, _behind_its_partner(send))
    yield from (one for one in oldest.values() if not _waits_before(timeline, one))


def _behind_in(
    group: GroupTimeline,
    rank: int,
    timeline: Timeline,
    outstanding: Outstanding,
    ended: Mapping[int, int],
    without_dump: Collection[int],
) -> UncompletedCall | None:
    """The first collective of a group that a rank with an open call has not completed, and that peers have."""
    call, furthest = group.open[rank], max(ended.values(), default=0)
    lost = call.seq > furthest > ended.get(rank, furthest) and not _has_root(timeline, group)
    found = call if lost else _not_completed(timeline, group, rank, call.seq, furthest)
    if found is None and _ended_for_most(outstanding, rank, call.seq, ended):
        found = call
    if found is None:
        return None
    first = ended[rank] + 1 if lost else found.seq
    if first == furthest and not {*without_dump}.isdisjoint(group.members):
        return None
    if not _tells(timeline, group, first, ended, lost=lost):
        return None
    return UncompletedCall(
        rank=rank,
        operation=found,
        not_completed=first,
        completed=ended.get(rank, 0),
        peers_completed={peer: seq for peer, seq in ended.items() if seq >= first and peer != rank},
    )


def _behind_its_partner(send: EndedByPartner) -> UncompletedCall:
    """A send that did not end for the rank, and that its partner has received."""
    return UncompletedCall(
        rank=send.call.rank,
        operation=send.call,
        not_completed=send.completed + 1,
        completed=send.completed,
        peers_completed={send.partner: send.partner_completed},
        transfer=send.name,
    )


def _tells(timeline: Timeline, group: GroupTimeline, seq: int, ended: Mapping[int, int], *, lost: bool) -> bool:
    """Whether peers that have completed this number have completed what the others wait in.

    A few of many may have called something else, which ended without the others, where their dumps do not hold it. So may one of
    two in a call that is `lost`, unless it has completed a later one of the group, for which it needs the other. Where nothing is
    known to have ended on the other, its table of groups may be empty.
    """
    through = [rank for rank, last in ended.items() if last >= seq]
    may_be_alone = lost and len(through) == 1 and (ended[through[0]] == seq or seq == 1)
    if 2 * len(through) >= len(group.members) and not may_be_alone:
        return True
    return any(timeline.issued(group, rank, seq) is not None for rank in through)


def _waits_before(timeline: Timeline, behind: UncompletedCall) -> bool:
    """Whether the rank waits in an older call, of a group whose members nothing tells: its device may wait there for another."""
    return any(
        behind.rank in group.open and group.open[behind.rank].entry < behind.operation.entry
        for group in timeline.groups
        if not group.group_sequences.members_known and group.backend not in WITHOUT_DEVICE
    )


def _backend(timeline: Timeline, issued: IssuedCall) -> str:
    return timeline.call_index.records[issued.rank].groups[issued.calls[0].group].backend


def differs(group: GroupTimeline, seq: int) -> bool:
    """Whether the ranks of this group had come to call different things by this number: then one may end without the other."""
    return any(mismatch.seq <= seq for mismatch in group.mismatches.values())


def _ended_for_most(outstanding: Outstanding, rank: int, seq: int, ended: Mapping[int, int]) -> bool:
    """Whether a call that has a root is the oldest that the rank waits in, all have enqueued it, and it ended for most of them.

    The root has sent then, or has all that it needs: nothing but the device of this rank is left to wait for. Where all send to
    the root, it has to wait for a device that stopped, as long as another one has not ended.
    """
    oldest = outstanding.oldest(rank)
    if oldest is None or rank not in oldest.waiting or oldest.waiting[rank].seq != seq or not oldest.complete:
        return False
    through = [peer for peer in oldest.members if ended.get(peer, 0) >= seq]
    waiting = len(oldest.members) - len(through)
    if oldest.waiting[rank].op not in SENT_BY_THE_ROOT and waiting > 1:
        return False
    return oldest.group is not None and waiting < len(through) and len(through) > 1


def _has_root(timeline: Timeline, group: GroupTimeline) -> bool:
    """Whether a call of the group, as far as ring buffers hold them, is one that its root completes before the others."""
    numbers = {number for sequence in group.group_sequences.sequences for number in sequence.calls if number >= 0}
    return any(call.op in ROOTED for number in numbers for call in timeline.call_index.calls[number])


def _not_completed(timeline: Timeline, group: GroupTimeline, rank: int, first: int, furthest: int) -> IssuedCall | None:
    """The first of these calls that peers cannot complete alone, as they can one that has a root."""
    calls = (timeline.issued(group, rank, seq) for seq in range(first, furthest + 1))
    return next((call for call in calls if call is not None and not call.done and call.op not in ROOTED), None)
