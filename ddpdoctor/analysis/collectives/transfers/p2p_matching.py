"""Sends and receives that wait for a partner who does not come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ddpdoctor.analysis.collectives.groups.group_deadlock import Deadlocks
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.recorders.agents_transfers import RECEIVES, SENDS
from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS, users_stack
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline, age
from ddpdoctor.analysis.collectives.transfers.named_partners import Waiting, misnamed_partner
from ddpdoctor.analysis.collectives.transfers.other_partners import OPPOSITE, OtherPartner, TransferPartners
from ddpdoctor.analysis.hangs.outstanding_transfers import with_all_transfers
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import POINT_TO_POINT
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, JobSize
from ddpdoctor.evidence.recorder import FlightRecord, State
from ddpdoctor.evidence.stacks import GivenPeer
from ddpdoctor.model import SkipCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A rank that waits in a send to, or a receive from, a partner that made no matching call."""

    rank: int
    """The rank that waits."""
    partner: int
    """The rank that it sends to, or receives from."""
    kind: Literal["send", "recv"]
    """Which half of a transfer it waits in."""
    place: Frame | None
    """The line of the call."""
    seconds: float | None = None
    """How long it waits."""
    tag: int = 0
    """The tag of the call."""
    entry: int = 0
    """Its place in the rank's flight recorder."""
    turn: tuple[str, int] = ("", 0)
    """The group and the number of its batch there."""
    is_last: bool = True
    """Whether the rank has called nothing behind it."""
    batch: tuple[str, int] | None = None
    """The group and the number of its batch, where the recorders have not kept what tells if the partner made its half."""


@dataclass(frozen=True, slots=True)
class Handshakes:
    """The sends and receives without their partners that the others wait for in turn; each circle of ranks together.

    Those of one batch of one rank are together, too, where the dumps do not tell which of the partners made its half.
    """

    unmatched: tuple[tuple[Unmatched, ...], ...]
    """These sends and receives."""
    misdirected: tuple[OtherPartner, ...] = ()
    """What a rank made with another partner than ranks with the same part in the job: the partner did nothing wrong."""
    by_programs: WaitForGraph | None = None
    """What waits end in where every half has a partner, and is not the one that it was meant for: some left one out before."""


def derive(
    timeline: Timeline | None,
    programs: ProgramComparison | None,
    calls: PerRank[CollectiveCalls] | None,
    graph: WaitForGraph | None,
    deadlocks: Deadlocks | None,
    activities: Activities | None = None,
    peers: PerRank[GivenPeer] | None = None,
    size: JobSize | None = None,
) -> Handshakes:
    """What waits for a partner, by the recorders, without any by what the agent saw, and without both by the stacks.

    A partner that is in no call, and of which the stack shows what it does instead, is another matter: DDP307 and its kin.
    """
    if timeline is None and calls is None:
        if peers is None or activities is None:
            raise SkipCheck("no flight-recorder dump and no record of what the ranks sent and received")
        return Handshakes(tuple(_by_stacks(peers, activities, size)))
    waiting = [*_by_recorder(timeline)] if timeline is not None else []
    if waiting and programs is not None and graph is not None and _may_be_misdirected(graph):
        misdirected = _misdirected(waiting, programs)
        if misdirected:
            return Handshakes((), misdirected)
    found = _not_dropped(waiting, programs) if programs is not None else []
    ages = [one.seconds for one in found if one.seconds is not None]
    if ages and max(ages) < MOVING_SECONDS:
        found = []
    if found and graph is not None:
        elsewhere = {one.rank for one in activities.elsewhere} if activities is not None else set()
        if graph.reason is Reason.IDLE and elsewhere.issuperset(graph.ranks):
            return Handshakes(())
        unmatched = tuple(_at_the_end(found, graph, deadlocks))
        return Handshakes(unmatched, by_programs=None if unmatched else _by_programs(graph))
    if not found and calls is not None and (timeline is None or not _holds_transfers(timeline)):
        found = [*_by_agent(calls)]
    return Handshakes(tuple(_roots(found)), by_programs=_by_programs(graph))


def _may_be_misdirected(graph: WaitForGraph) -> bool:
    """Whether ranks wait for each other, or in halves that may be of different transfers."""
    return graph.reason is Reason.CYCLE or (
        graph.reason in (Reason.STANDING, Reason.MOVED) and any(operation.assumed for operation in graph.operations)
    )


def _by_stacks(
    peers: PerRank[GivenPeer], activities: Activities, size: JobSize | None
) -> Iterator[tuple[Unmatched, ...]]:
    """Sends and receives that all waits lead to, where every rank waits, none moves, and each partner is known.

    A partner that is in another call has not made its half: where both halves are made they end at once.
    """
    of_rank = by_rank(peers)
    transferring = {one.rank for one in activities.each if POINT_TO_POINT.search(one.operation)}
    seen = {one.rank for one in activities.each}
    if (
        not all(one.waits_for_peers and one.stands_still for one in activities.each)
        or (size is not None and len(seen) < size.ranks)
        or not transferring <= {*of_rank}
        or any(given.peer not in seen or _meets(rank, given, of_rank) for rank, given in of_rank.items())
    ):
        return
    found = [
        Unmatched(rank=rank, partner=given.peer, kind="recv" if given.op == "recv" else "send", place=given.place)
        for rank, given in sorted(of_rank.items())
    ]
    yield from _roots(found)


def _meets(rank: int, given: GivenPeer, by_rank: Mapping[int, GivenPeer]) -> bool:
    """Whether the partner is in the other half of this transfer."""
    theirs = by_rank.get(given.peer)
    return theirs is not None and theirs.peer == rank and theirs.op != given.op


def _by_programs(graph: WaitForGraph | None) -> WaitForGraph | None:
    deviates = graph is not None and graph.reason in (Reason.LEFT_OUT, Reason.EXTRA)
    return graph if deviates and graph is not None and graph.only_point_to_point else None


def _misdirected(found: Sequence[Unmatched], programs: ProgramComparison) -> tuple[OtherPartner, ...]:
    """What the one rank made with another partner than all ranks with its part; of few, while the one that they call waits."""
    partners = TransferPartners(programs)
    oldest: dict[int, Unmatched] = {}
    for one in found:
        oldest.setdefault(one.rank, one)
    awaited = {(one.rank, one.kind, one.partner) for one in found}
    partners_of = [partners.other_partner(one.rank, one.entry) for one in oldest.values()]
    asked = [
        replace(one, awaited=(one.expected_partner, OPPOSITE[one.expected_op], one.rank) in awaited)
        for one in partners_of
        if one is not None
    ]
    other = tuple(one for one in asked if one.agreed or one.awaited)
    return other if len(other) == 1 else tuple(_misnamed([*oldest.values()], programs)) if not other else ()


def _misnamed(oldest: Sequence[Unmatched], programs: ProgramComparison) -> Iterator[OtherPartner]:
    """What a rank made with a partner that exchanges with others alone, where no other rank has its part."""
    halves = {Waiting(one.rank, one.kind, one.partner): one.place for one in oldest}
    found = misnamed_partner([*halves], programs.records)
    if found is not None:
        half, instead = found
        yield OtherPartner(
            rank=half.rank,
            place=halves[half],
            op=half.op,
            partner=half.partner,
            expected_op=half.op,
            expected_partner=instead,
            agreed=False,
            awaited=True,
            by_part=False,
        )


def _at_the_end(
    found: Sequence[Unmatched], graph: WaitForGraph, deadlocks: Deadlocks | None
) -> Iterator[tuple[Unmatched, ...]]:
    """Those that all waits lead to; none where they lead to something else."""
    if graph.reason is Reason.IDLE and graph.only_point_to_point:
        awaited = {one.partner: one for one in reversed(found) if one.partner in graph.ranks}
        if awaited:
            yield tuple(awaited[partner] for partner in sorted(awaited))
    elif graph.reason in (Reason.LEFT_OUT, Reason.EXTRA) and graph.only_point_to_point:
        pairs = [{*operation.members} for operation in graph.operations]
        within = [one for one in found if {one.rank, one.partner} in pairs]
        yield from islice(((one,) for one in within if one.partner in graph.ranks), 1)
    elif graph.reason is Reason.CYCLE and (deadlocks is None or not deadlocks.found):
        lacking = {(rank, one.members) for one in graph.operations if one.group is None for rank in one.absent}
        within = [
            one
            for one in found
            if {one.rank, one.partner} <= {*graph.ranks}
            and (one.batch is None or (one.partner, tuple(sorted((one.rank, one.partner)))) in lacking)
            and _is_first(one, graph)
        ]
        yield from (_with_passed_by(_in_one_batch(root, within), within) for root in islice(_roots(within), 1))


def _is_first(one: Unmatched, graph: WaitForGraph) -> bool:
    """Whether the rank has waited for nothing longer: what it has queued behind another wait, its partner lacks for a reason."""
    oldest = graph.meanwhile.get(one.rank)
    if oldest is None or one.entry <= oldest.entry:
        return True
    return oldest.calls[0].point_to_point and one.turn == (oldest.group, oldest.seq)


def _in_one_batch(root: tuple[Unmatched, ...], found: Sequence[Unmatched]) -> tuple[Unmatched, ...]:
    """`root`, or all of its batch: of active entries alone, either partner may have completed and dropped its half."""
    first, *others = root
    if others or first.batch is None:
        return root
    return tuple(one for one in found if (one.rank, one.batch) == (first.rank, first.batch))


def _with_passed_by(circle: tuple[Unmatched, ...], found: Sequence[Unmatched]) -> tuple[Unmatched, ...]:
    """`circle`, or with it the rank that waits in the same kind of transfer for the one that waits, and that it passed by.

    One that went on behind its call may have named the wrong partner there.
    """
    first, *others = circle
    if others or first.is_last:
        return circle
    passed = (one for one in found if one.partner == first.rank and one.kind != first.kind)
    return (first, *islice((one for one in passed if one.rank != first.partner), 1))


def _roots(found: Sequence[Unmatched]) -> Iterator[tuple[Unmatched, ...]]:
    """Those that wait for a rank that is not itself waiting so, and the circles of those that wait for each other."""
    awaited = {one.rank: one.partner for one in found}
    circles: set[int] = set()
    for one in found:
        if one.partner not in awaited:
            yield (one,)
        elif one.rank not in circles and one.rank in (circle := _follow(one.partner, awaited)):
            circles.update(circle)
            yield tuple(each for each in found if each.rank in circle and each.partner in circle)


def _follow(start: int, awaited: Mapping[int, int]) -> list[int]:
    """The ranks from `start` on, each awaiting the next, until one comes again or awaits nobody."""
    chain = [start]
    while (following := awaited.get(chain[-1])) is not None and following not in chain:
        chain.append(following)
    return chain


def _holds_transfers(timeline: Timeline) -> bool:
    """Whether the records hold sends and receives, those that only the agent saw included: then they tell of all."""
    return any(call.point_to_point for record in timeline.call_index.records.values() for call in record.calls)


def _by_recorder(timeline: Timeline) -> Iterator[Unmatched]:
    issued: Counter[tuple[str, int, str, int, int]] = Counter()
    under_way: Counter[tuple[str, int, str, int, int]] = Counter()
    waiting: list[tuple[str, int, str, int, int, int, int]] = []
    for rank, record in timeline.call_index.records.items():
        if not any(call.point_to_point for call in record.calls):
            continue
        for entry, number in enumerate(record.call):
            call = record.calls[number]
            if call.op not in ("send", "recv") or call.source is None or call.target is None:
                continue
            group = record.groups[call.group]
            source, target = _global(group.ranks, call.source), _global(group.ranks, call.target)
            issued[group.name, call.tag, call.op, source, target] += 1
            if record.state[entry] is not State.DONE:
                under_way[group.name, call.tag, call.op, source, target] += 1
                waiting.append((group.name, call.tag, call.op, source, target, rank, entry))
    kept = with_all_transfers(timeline.call_index.records) if waiting else {}
    for name, tag, op, source, target, rank, entry in waiting:
        partner = target if op == "send" else source
        opposite = "recv" if op == "send" else "send"
        mine, theirs = timeline.call_index.records[rank], timeline.call_index.records.get(partner)
        if theirs is None:
            continue
        # rings that wrapped have not kept the same pairs
        incomplete = bool(mine.lost or theirs.lost) and not (name in kept[rank] and name in kept[partner])
        counted = under_way if incomplete else issued
        if counted[name, tag, opposite, source, target] < counted[name, tag, op, source, target]:
            yield _unmatched(mine, rank, partner, op, entry, batch=(name, mine.seq[entry]) if incomplete else None)


def _not_dropped(found: list[Unmatched], programs: ProgramComparison) -> list[Unmatched]:
    """Without those of which the partner has completed and dropped its half.

    It has made as many sends and receives as ranks with its part in other groups, where nobody waits in this way. In a circle the
    others with its part are those of the circle itself, which tell nothing of that.
    """
    unsure = [one for one in found if one.batch is not None]
    if not unsure:
        return found
    groups = {
        group.name: programs.label(rank, group.name)
        for rank, record in programs.records.items()
        for group in record.groups
    }
    waited_in = {one.batch[0] for one in unsure if one.batch is not None}
    elsewhere = {label for name, label in groups.items() if name not in waited_in}

    def made(one: Unmatched) -> bool:
        if one.batch is None or groups[one.batch[0]] not in elsewhere:
            return False
        if programs.places.place(one.partner, one.batch[0]) is None:
            return False
        kind = programs.kind(one.partner, one.batch[0], point_to_point=True)
        return kind is not None and programs.surplus(one.partner, kind) == 0

    return [one for one in found if not made(one)]


def _global(members: tuple[int, ...] | None, place: int) -> int:
    return members[place] if members is not None and place < len(members) else place


def _unmatched(
    record: FlightRecord, rank: int, partner: int, op: str, entry: int, *, batch: tuple[str, int] | None
) -> Unmatched:
    stack = users_stack(record, record.stack[entry])
    return Unmatched(
        rank=rank,
        partner=partner,
        kind="send" if op == "send" else "recv",
        place=stack[-1] if stack else None,
        seconds=age(record, record.created_ns[entry], record.calls[record.call[entry]].timeout_ms),
        tag=record.calls[record.call[entry]].tag,
        entry=entry,
        turn=_turn(record, entry),
        is_last=_turn(record, entry) == _turn(record, len(record) - 1),
        batch=batch,
    )


def _turn(record: FlightRecord, entry: int) -> tuple[str, int]:
    return record.groups[record.calls[record.call[entry]].group].name, record.seq[entry]


def _by_agent(calls: PerRank[CollectiveCalls]) -> Iterator[Unmatched]:
    sent: Counter[tuple[int, int | None, int]] = Counter()
    received: Counter[tuple[int, int | None, int]] = Counter()
    for entry in calls:
        sent.update((entry.rank, call.peer, call.tag) for call in entry.value.calls if call.op in SENDS)
        received.update((entry.rank, call.peer, call.tag) for call in entry.value.calls if call.op in RECEIVES)
    for entry in calls:
        for call in entry.value.calls:
            if call.returned or call.peer is None or call.peer not in calls.ranks:
                continue
            mine, theirs = (entry.rank, call.peer, call.tag), (call.peer, entry.rank, call.tag)
            receives = call.op in RECEIVES and sent[theirs] < received[mine]
            if receives or (call.op in SENDS and received[theirs] < sent[mine]):
                yield Unmatched(
                    rank=entry.rank,
                    partner=call.peer,
                    kind="recv" if receives else "send",
                    place=call.place,
                    tag=call.tag,
                )
