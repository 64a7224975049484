"""Why the ranks of a process group met in different collectives: one called too much, left, or took another branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePath

from ddpdoctor.analysis.agreement import Disagreement, shape
from ddpdoctor.analysis.callsites import Comparison, Relation, compare, condition_over, seen_from_the_odd
from ddpdoctor.analysis.habit import came_as_always
from ddpdoctor.analysis.known_errors import Echo, echo
from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.passes import gone_on
from ddpdoctor.analysis.shift import Shift, shift_of
from ddpdoctor.analysis.timeline import Clash, GroupTimeline, Made, Timeline
from ddpdoctor.analysis.two_threads import groups_in_turns, made_by_a_thread
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit
from ddpdoctor.evidence.source import Loop, SourceCode

LEAVING = {"barrier"}  # what loops are usually followed by, where the source is not at hand


class Cause(Enum):
    """What the odd ranks did."""

    EXTRA = "called what the others never call"
    LACKING = "never called what the others call"
    LEFT = "ended their loop, or the program, while others still needed them"
    MISMATCH = "called another operation at the same point"
    CHANCE = "called from several threads in turns, in an order that is chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desync:
    """One group's ranks out of step, or in step but in different operations.

    `odd` are on the side that is reported and `usual` on the other; `tied` where no majority tells which is at fault.
    `made` is what each rank called when they came apart; a rank that ended before has none. `comparison` is the place
    of the first odd rank seen from the others. `shift` is set where wrong pairs went unnoticed for a while, and `met`
    is what they ended in. `ended` are the ranks that exited with code 0.
    """

    cause: Cause
    group: GroupTimeline
    seq: int
    odd: tuple[int, ...]
    usual: tuple[int, ...]
    tied: bool
    made: Mapping[int, Made]
    comparison: Comparison
    shift: Shift | None = None
    met: Mapping[int, Made] | None = None
    ended: tuple[int, ...] = ()

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks at fault: the odd ones, or both sides where it cannot be told."""
        return tuple(sorted({*self.odd, *self.usual})) if self.tied else self.odd


@dataclass(frozen=True, slots=True)
class Desyncs:
    """The desync of each group that has one, the one that began first in front."""

    found: tuple[Desync, ...]

    def of(self, cause: Cause) -> tuple[Desync, ...]:
        """Those with this cause."""
        return tuple(desync for desync in self.found if desync.cause is cause)


def derive(
    timeline: Timeline,
    code: SourceCode | None,
    exits: PerRank[RankExit] | None,
    calls: PerRank[CollectiveCalls] | None = None,
) -> Desyncs:
    """Every group's desync, judged by majority over all of its ranks."""
    finished = {entry.rank for entry in exits or () if entry.value.exit_code == 0}
    lost = {entry.rank for entry in exits or () if _lost_a_peer(entry.value)}
    found = [desync for group in timeline.groups for desync in _of_group(group, timeline, code, finished, lost)]
    return Desyncs(tuple(sorted((_by_passes(desync, calls, code) for desync in found), key=_began)))


def skips(desync: Desync, code: SourceCode | None) -> list[str]:
    """The `continue`s, as `train.py:58`, of the loops that the usual ranks called from and the odd ones did not."""
    left = _loops(desync, desync.usual, code) - _loops(desync, desync.odd, code)
    return sorted({f"{PurePath(file).name}:{line}" for file, loop in left for line in loop.skips})


def _loops(desync: Desync, ranks: Sequence[int], code: SourceCode | None) -> set[tuple[str, Loop]]:
    """The loops, with their files, that these ranks made their calls in."""
    frames = [frame for rank in ranks if rank in desync.made for frame in desync.made[rank].stack]
    places = [place for frame in frames if code is not None and (place := code.at(frame.file, frame.line)) is not None]
    return {(place.file, loop) for place in places for loop in place.loops}


def _lost_a_peer(ending: RankExit) -> bool:
    return ending.error is not None and echo(ending.error.message) is Echo.PEER_GONE


def _began(desync: Desync) -> int:
    return min((made.created_ns for made in desync.made.values()), default=0)


def _of_group(
    group: GroupTimeline, timeline: Timeline, code: SourceCode | None, finished: set[int], lost: set[int]
) -> Iterator[Desync]:
    clash = group.clashes.get(Disagreement.OPERATION) or group.clashes.get(Disagreement.SHAPE)
    if clash is not None and _is_chance(group, timeline, clash):
        yield _by_chance(group, clash)
        return
    clash = group.clashes.get(Disagreement.OPERATION)
    if clash is not None:
        yield _clashed(group, clash, timeline, code)
        return
    clash = group.clashes.get(Disagreement.SHAPE)
    if clash is not None:
        desync = _clashed(group, clash, timeline, code)
        if desync.cause is not Cause.MISMATCH:  # two calls that share a name, and not one call with two shapes
            yield desync
            return
    gone = finished & {*group.members}
    waiting = {rank: made for rank, made in group.open.items() if rank not in gone}
    if not waiting and 2 * len(gone) > len(group.members):  # a few called once more, and most of their peers had gone
        waiting = {rank: group.last[rank] for rank in lost if rank in group.last}
    short = {rank for rank in gone if group.reached(rank) < max((made.seq for made in waiting.values()), default=0)}
    if short and waiting:
        yield _ended(group, short, waiting)


def _is_chance(group: GroupTimeline, timeline: Timeline, clash: Clash) -> bool:
    """Whether ranks came apart in calls of different threads, which each makes in turns, or which differ in shape alone."""
    records = timeline.archive.records
    by_a_thread = {
        made_by_a_thread(records[track.rank], track.entries[clash.seq - track.first])
        for track in group.lane.tracks
        if track.rank in clash.made
    }
    in_turns = {made.name for rank in group.recorded for made in groups_in_turns(records[rank])}
    return len(by_a_thread) > 1 and (clash.kind is Disagreement.SHAPE or group.lane.group.name in in_turns)


def _by_chance(group: GroupTimeline, clash: Clash) -> Desync:
    """No rank is at fault: all do the same, and what they met in is chance."""
    return Desync(
        cause=Cause.CHANCE,
        group=group,
        seq=clash.seq,
        odd=(),
        usual=tuple(sorted(clash.made)),
        tied=False,
        made=clash.made,
        comparison=Comparison(Relation.UNKNOWN),
    )


def _ended(group: GroupTimeline, short: set[int], waiting: Mapping[int, Made]) -> Desync:
    """Some ranks ended with exit code 0 while others wait: whoever is the minority of these is at fault.

    What a rank did that lost its peers, and its recorder with them, is not known, and counts for neither side.
    """
    few_wait = len(waiting) < len(short)
    seq = min(made.seq for made in waiting.values())
    return Desync(
        cause=Cause.EXTRA if few_wait else Cause.LEFT,
        group=group,
        seq=seq,
        odd=tuple(sorted(waiting if few_wait else short)),
        usual=tuple(sorted(short if few_wait else waiting)),
        tied=False,
        made=waiting,
        comparison=Comparison(Relation.UNKNOWN),
        ended=tuple(sorted(short)),
    )


def _clashed(group: GroupTimeline, clash: Clash, timeline: Timeline, code: SourceCode | None) -> Desync:
    called = {
        rank: (made.op, shape(made.calls) if clash.kind is Disagreement.SHAPE else ())
        for rank, made in clash.made.items()
    }
    sides = vote(called)
    usual = sides.usual
    odd = sides.odd
    if sides.tied:
        by_call: dict[object, list[int]] = {}
        for rank in sorted(clash.made):
            by_call.setdefault(called[rank], []).append(rank)
        first, *others = by_call.values()
        odd, usual = tuple(first), tuple(rank for ranks in others for rank in ranks)
    stacks = {rank: made.stack for rank, made in clash.made.items()}
    odd, usual, comparison = seen_from_the_odd(odd, usual, stacks, code, tied=sides.tied)
    shift = shift_of(group.lane, odd[0], usual, clash.seq)
    if shift is not None:
        return _shifted(group, timeline, code, clash, odd, usual, shift, tied=sides.tied)
    cause = cause_of(comparison, clash.made[odd[0]].op, clash.made[usual[0]].op)
    if cause is Cause.LEFT and (
        _stays(timeline, group, clash, odd[0], usual[0]) or (sides.tied and _as_always(group, odd[0], clash.seq))
    ):
        cause = Cause.EXTRA
    return Desync(
        cause=cause,
        group=group,
        seq=clash.seq,
        odd=odd,
        usual=usual,
        tied=sides.tied and cause is not Cause.LEFT,
        made=clash.made,
        comparison=comparison,
    )


def _as_always(group: GroupTimeline, rank: int, seq: int) -> bool:
    """Whether this rank's loops have led to this call after as many others as before: it did not leave one early."""
    track = group.lane.track(rank)
    return track is not None and came_as_always(track, seq)


def _stays(timeline: Timeline, group: GroupTimeline, clash: Clash, odd: int, usual: int) -> bool:
    """Whether both were at one place just before, and it is the odd rank that is there still: it turns once more."""
    mine, theirs = (timeline.made(group, rank, clash.seq - 1) for rank in (odd, usual))
    if mine is None or theirs is None or not mine.stack or mine.stack != theirs.stack:
        return False
    return clash.made[odd].stack == mine.stack != clash.made[usual].stack


def _shifted(
    group: GroupTimeline,
    timeline: Timeline,
    code: SourceCode | None,
    clash: Clash,
    odd: tuple[int, ...],
    usual: tuple[int, ...],
    shift: Shift,
    *,
    tied: bool,
) -> Desync:
    if tied and shift.extra < 0:
        odd, usual, shift = usual, odd, Shift(seq=shift.seq, extra=-shift.extra)
    made = {rank: call for rank in (*odd, *usual) if (call := timeline.made(group, rank, shift.seq)) is not None}
    return Desync(
        cause=Cause.EXTRA if shift.extra > 0 else Cause.LACKING,
        group=group,
        seq=shift.seq,
        odd=odd,
        usual=usual,
        tied=tied,
        made=made,
        comparison=compare(made[odd[0]].stack, made[usual[0]].stack, code),
        shift=shift,
        met=clash.made,
    )


def _by_passes(desync: Desync, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None) -> Desync:
    """Of ranks past a loop and ranks in it: whether these make one turn more of it, or have come to it again.

    Then they have left out the call that the others make behind it. Where it is not known, and no majority tells who is odd,
    nobody is said to have left the loop early.
    """
    within = desync.comparison.relation is Relation.WITHIN
    if not desync.comparison.again or not desync.made or desync.shift is not None or desync.group.name:
        return desync
    again, there = (desync.odd, desync.usual) if within else (desync.usual, desync.odd)
    gone = gone_on(calls, again, there, desync.seq)
    if gone is False:
        return replace(desync, comparison=replace(desync.comparison, again=False))
    left = desync.cause is Cause.LEFT and not _handled_an_error(calls, there, desync.seq)
    if gone is None and left and len(again) == len(there):
        seen = replace(desync.comparison, relation=Relation.WITHIN)
        return replace(desync, cause=Cause.EXTRA, odd=again, usual=there, tied=True, comparison=seen)
    if gone is None:
        return desync
    tied = desync.tied or len(desync.odd) == len(desync.usual)
    lacking = within or tied
    condition = condition_over(desync.made[there[0]].stack, code)
    return replace(
        desync,
        cause=Cause.LACKING if lacking else Cause.EXTRA,
        odd=again if lacking else there,
        usual=there if lacking else again,
        tied=tied,
        comparison=Comparison(
            Relation.UNCONDITIONAL if lacking else Relation.CONDITIONAL,
            condition=condition and condition[0],
            frame=condition and condition[1],
        ),
    )


def _handled_an_error(calls: PerRank[CollectiveCalls] | None, ranks: Sequence[int], seq: int) -> bool:
    """Whether one of these ranks made call `seq` while it handled an error: then that led it out of its loop."""
    return any(one.seq == seq for entry in calls or () if entry.rank in ranks for one in entry.value.handled)


def cause_of(comparison: Comparison, odd_op: str, usual_op: str) -> Cause:
    """The cause, by where the odd ranks stand. A majority that has left the loop means one call too many of the odd."""
    match comparison.relation:
        case Relation.PAST if comparison.loop is not None or odd_op in LEAVING:
            return Cause.LEFT
        case Relation.WITHIN if comparison.loop is not None or usual_op in LEAVING:
            return Cause.EXTRA
        case Relation.CONDITIONAL | Relation.BEFORE:
            return Cause.EXTRA
        case Relation.UNCONDITIONAL | Relation.AHEAD:
            return Cause.LACKING
        case _:
            return Cause.MISMATCH
