"""A rank waits in a send or a receive whose partner never made the matching call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.groups.desync import Desyncs
from ddpdoctor.analysis.collectives.groups.guarded_calls import GuardedCalls
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.collectives.transfers.other_partners import OPPOSITE, OtherPartner
from ddpdoctor.analysis.collectives.transfers.other_tags import OtherTag, other_tag
from ddpdoctor.analysis.collectives.transfers.p2p_matching import Handshakes, Unmatched
from ddpdoctor.analysis.collectives.transfers.turns_left import (
    LeftOut,
    collective_left_out,
    loops_left,
    transfer_left_out,
)
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.short_waits import seconds_so_far
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import GivenPeer
from ddpdoctor.messages import first_deviations, ways_out
from ddpdoctor.messages.collectives import OF_A_YOUNG_DUMP, duration, unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks, verb

RULE = Rule(
    code="DDP313",
    name="p2p-unmatched",
    summary="a send or a receive waits for a partner that does not come",
    severity=Severity.FAIL,
    shown_by="a send or receive is open whose partner is in another call: `ddpdoctor hang`",
    remedy="make the partner's call on the rank that is named, in the same order and for the same group",
    explains=("DDP305", "DDP307", "DDP314", "DDP316", "DDP318", "DDP408"),
)

OF_A_LOOP = (
    "let both ranks end their loops after the same transfer: have the partner send that it is done, or agree on the number of "
    "turns before"
)
OF_A_TAG = (
    "compute the tag from what is the same on both ranks, such as the number of the step, and not from a count that each rank "
    "keeps by itself"
)
BY_STACKS = "inferred from current stacks only: the rank that waits may have made a call too many instead"


def check(
    handshakes: Handshakes,
    timeline: Timeline | None,
    graph: WaitForGraph | None,
    activities: Activities | None = None,
    peers: PerRank[GivenPeer] | None = None,
    desyncs: Desyncs | None = None,
    guarded: GuardedCalls | None = None,
    exits: PerRank[RankExit] | None = None,
    stall: Stall | None = None,
    calls: PerRank[CollectiveCalls] | None = None,
    code: SourceCode | None = None,
) -> Iterator[Finding]:
    """The missing partners, and who waits for them at which line; all ranks of a circle, in which nobody is the first.

    Of a circle, the rank alone that left out a send or receive which it made at this point in all turns before.
    Where a partner first did other than ranks with its part in the job, that line comes first. Ranks of which the calls of a
    group tell already that they diverged have one cause, which their own finding says better. So has a collective that the
    partners alone make (DDP305). A wait that is short tells nothing, where nothing but dumps shows that the job hung.
    """
    if guarded is not None and any(one.transfers for one in guarded.found):
        return
    tag = other_tag(calls) if calls is not None else None
    if tag is not None and any(tag.leaves(one) for circle in handshakes.unmatched for one in circle):
        yield _of_another_tag(tag, handshakes)
        return
    deviations = [*first_deviations.deviating_calls(graph)] if graph is not None else []
    explained = {desync.culprits for desync in desyncs.found} if desyncs is not None else set()
    if handshakes.by_programs is not None and handshakes.by_programs.ranks not in explained:
        yield _by_programs(handshakes.by_programs)
    for one in handshakes.misdirected:
        yield _misdirected(one)
    if peers is not None and activities is not None and timeline is None:
        yield from _by_stacks(handshakes, activities, by_rank(peers))
        return
    awaited = graph if graph is not None and graph.reason is Reason.IDLE and exits is None and stall is None else None
    young = seconds_so_far(awaited) if awaited is not None else None
    for circle in handshakes.unmatched:
        tags = any(one.tag for one in circle)
        first, *others = circle
        skipped = collective_left_out(first, timeline) if timeline is not None and not others else None
        if skipped is not None:
            yield _left_out(first, skipped)
            continue
        lacking = transfer_left_out(circle, timeline, calls) if others else None
        if lacking is not None:
            yield _out_of_turn(lacking, circle)
            continue
        partner = timeline.waiting(first.partner) if timeline is not None and not others else None
        left = loops_left(first, timeline, code) if timeline is not None and not others else []
        by = [*ways_out.of_loops(left, [first.partner])] or [*ways_out.if_only_one(left, [first.partner])]
        behind = " left its loop and" if left else ""
        meanwhile = f"; rank {first.partner}{behind} waits in {partner.name}" if partner is not None else ""
        theirs = witnesses({first.partner: partner}, [first.partner]) if partner is not None else []
        partners = {one.partner for one in circle}
        deviating = [where for one in deviations if one.rank in partners for where in one.where()]
        yield RULE.finding(
            f"{'; '.join(_describe(one, tags=tags) for one in circle)}{_of_one_batch(circle)}{meanwhile}",
            severity=Severity.INFO if young is not None else None,
            ranks=sorted(partners),
            where=[*deviating, *by, *theirs, *(where for one in circle for where in _where(one))],
            remedy=OF_A_YOUNG_DUMP if young is not None else OF_A_LOOP if left else None,
            waiting=[one.rank for one in circle],
            kind=first.kind,
        )


def _of_another_tag(found: OtherTag, handshakes: Handshakes) -> Finding:
    unmatched = [one for circle in handshakes.unmatched for one in circle]
    called = f"{found.call.op} with tag {found.call.tag}"
    made = [Where.at(found.call.place, rank=found.rank, note=called)] if found.call.place is not None else []
    return RULE.finding(
        f"rank {found.rank} called {called}, where {group_ranks(found.others)} gave tag {found.expected} at the same point of "
        f"the program; {'; '.join(_describe(one, tags=True) for one in unmatched)}",
        ranks=[found.rank],
        where=[*made, *(where for one in unmatched for where in _where(one))],
        remedy=OF_A_TAG,
        waiting=[one.rank for one in unmatched],
        kind=unmatched[0].kind,
    )


def _left_out(one: Unmatched, call: IssuedCall) -> Finding:
    return RULE.finding(
        f"rank {one.rank} did not call {call.name}, as it always did before this {one.kind}: rank {one.partner} waits in it, and "
        f"rank {one.rank} waits in {_towards(one.kind, one.partner)}",
        ranks=[one.rank],
        where=[*_where(one), *witnesses({one.partner: call}, [one.partner])],
        remedy=f"look at what rank {one.rank} does before this {one.kind}: a condition around the {call.op}",
        waiting=[one.rank],
        kind=one.kind,
    )


def _out_of_turn(left: LeftOut, circle: Sequence[Unmatched]) -> Finding:
    """The rank of a circle that left out what it always did with a rank that waits for it."""
    one, usual = left.by, left.usual
    others = [each for each in circle if each is not one]
    call = _towards(usual.op, usual.partner)
    return RULE.finding(
        f"rank {one.rank} did not call {call}, as it did at this point in the turns before, and waits in "
        f"{_towards(one.kind, one.partner)}; {'; '.join(_describe(each, tags=False) for each in others)}",
        ranks=[one.rank],
        where=[
            *([Where.at(usual.place, rank=one.rank, note=f"{call}, not called in this turn")] if usual.place else ()),
            *(where for each in (one, *others) for where in _where(each)),
        ],
        remedy=f"look at what rank {one.rank} does before this {one.kind}: a condition around the {usual.op}",
        waiting=[each.rank for each in circle],
        kind=one.kind,
    )


def _misdirected(one: OtherPartner) -> Finding:
    expected = _towards(one.expected_op, one.expected_partner)
    waits = f"rank {one.expected_partner} waits in {_towards(OPPOSITE[one.expected_op], one.rank)}"
    made = _towards(one.op, one.partner) if one.op is not None and one.partner is not None else f"no {expected}"
    others = f"where ranks with the same part in the job have {expected}, by their places"
    if not one.by_part:
        others = "which sends and receives with other ranks alone"
    return RULE.finding(
        f"rank {one.rank} called {made}{'' if one.by_part else ','} {others}{f', and {waits}' if one.awaited else ''}",
        ranks=[one.rank],
        where=[Where.at(one.place, rank=one.rank, note=made)] if one.place is not None else [],
        remedy=f"mend the direction or the partner that rank {one.rank} gives to this call, or a call that its batch lacks",
        waiting=[one.rank, *([one.expected_partner] if one.awaited else ())],
        kind=one.op or one.expected_op,
    )


def _towards(op: str, partner: int) -> str:
    return f"{op} {'from' if op == 'recv' else 'to'} rank {partner}"


def _by_stacks(handshakes: Handshakes, activities: Activities, given: Mapping[int, GivenPeer]) -> Iterator[Finding]:
    """All that wait for one partner together, and the circles, with what the partner waits in meanwhile.

    A rank that waits for one partner while another one waits for it may have named the wrong one: then both may be at fault.
    """
    of_rank = {one.rank: one for one in activities.each}
    alone = [circle[0] for circle in handshakes.unmatched if len(circle) == 1]
    awaited = sorted({one.partner for one in alone})
    for circle in (
        *(circle for circle in handshakes.unmatched if len(circle) > 1),
        *(tuple(one for one in alone if one.partner == partner) for partner in awaited),
    ):
        partners = sorted({one.partner for one in circle})
        of_itself = {one.rank for one in circle}
        others = [of_rank[rank] for rank in partners if rank not in of_itself]
        meanwhile = "".join(f"; rank {one.rank} waits in {one.operation}" for one in others)
        theirs = [Where.at(one.place, rank=one.rank, note=f"waiting in {one.operation}") for one in others if one.place]
        passed_by = {rank: one.rank for one in circle for rank in _passed_by(one, given)}
        yield RULE.finding(
            f"{'; '.join(_describe(one, tags=False) for one in circle)}{meanwhile}",
            ranks=sorted({*partners, *passed_by.values()}),
            where=[
                *theirs,
                *(where for one in circle for where in _where(one)),
                *(
                    Where.at(given[rank].place, rank=rank, note=f"{given[rank].op} with rank {waiting}")
                    for rank, waiting in passed_by.items()
                    if given[rank].place is not None
                ),
            ],
            details=[
                BY_STACKS,
                *(
                    f"rank {rank} waits in {given[rank].op} with rank {waiting}, which may have named the wrong partner"
                    for rank, waiting in passed_by.items()
                ),
            ],
            waiting=[one.rank for one in circle],
            kind=circle[0].kind,
        )


def _passed_by(one: Unmatched, given: Mapping[int, GivenPeer]) -> list[int]:
    """The ranks that wait in the other half of such a transfer for a rank that waits for another partner."""
    return [
        rank
        for rank, theirs in sorted(given.items())
        if theirs.peer == one.rank and rank != one.partner and ("recv" in theirs.op) != (one.kind == "recv")
    ]


def _by_programs(graph: WaitForGraph) -> Finding:
    """By how many sends and receives ranks with the same part in the job have made at the same point of their programs."""
    ranks, (operation, *_) = graph.ranks, graph.operations
    said = "left out a" if graph.reason is Reason.LEFT_OUT else "made an extra"
    deviations = [*first_deviations.deviating_calls(graph)]
    others = [rank for rank in operation.members if rank not in ranks]
    shown = {**graph.meanwhile, **operation.waiting}
    return RULE.finding(
        f"{group_ranks(ranks)} {said} send or receive between ranks {operation.members[0]} and {operation.members[-1]}: "
        f"what they wait in there are not halves of one transfer",
        ranks=ranks,
        where=[
            *(where for one in deviations for where in one.where()),
            *witnesses(shown, ranks),
            *witnesses(shown, others),
        ],
        details=[
            "other ranks with the same part in the job have made another number of sends and receives at this point",
            *graph.details(),
            *unplaced(shown, shown),
        ],
        remedy=f"look at what {group_ranks(ranks)} {verb(ranks, 'does', 'do')} before this call: a condition around a send",
        waiting=[*graph.waiting],
    )


def _of_one_batch(circle: Sequence[Unmatched]) -> str:
    """Said of several halves of one rank: they end together, so one that lacks its partner keeps all of them."""
    partners = sorted({one.partner for one in circle})
    if len({(one.rank, one.batch) for one in circle}) > 1 or circle[0].batch is None or len(partners) < 2:
        return ""
    return f"; they are one batch, and the dumps do not show which of {group_ranks(partners)} did not make its half"


def _describe(one: Unmatched, *, tags: bool) -> str:
    tag = f" with tag {one.tag}" if tags else ""
    if one.kind == "recv":
        return f"rank {one.rank} waits in recv from rank {one.partner}{tag}, which did not send"
    return f"rank {one.rank} waits in send to rank {one.partner}{tag}, which does not receive"


def _where(one: Unmatched) -> list[Where]:
    if one.place is None:
        return []
    waits = f", waits {duration(one.seconds)}" if one.seconds is not None else ""
    note = f"{one.kind} {'from' if one.kind == 'recv' else 'to'} rank {one.partner}{waits}"
    return [Where.at(one.place, rank=one.rank, note=note)]
