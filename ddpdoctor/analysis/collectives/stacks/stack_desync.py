"""Ranks that all wait in collectives, and not in the same: inferred from their stacks, where no recorder shows more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from ddpdoctor.analysis.collectives.groups.desync import Cause, cause_of
from ddpdoctor.analysis.collectives.places.branch_divergence import FirstCall, by_branches, by_functions
from ddpdoctor.analysis.collectives.places.callsites import seen_from_minority
from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests
from ddpdoctor.analysis.collectives.places.rank_tests import is_rank_test, tells_ranks_apart
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.places.same_iteration import in_one_turn
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.calls_of_all import calls_of_all, shared_depth
from ddpdoctor.analysis.collectives.stacks.calls_of_some import by_a_call_of_some
from ddpdoctor.analysis.collectives.stacks.stack_sides import one_side_and_all_others, sides_of
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import BACKWARD, NEW_GROUP, POINT_TO_POINT, Activity
from ddpdoctor.analysis.hangs.users_line import UNKNOWN_CALL
from ddpdoctor.analysis.majority import vote, vote_of
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, only_users, program_frames
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.source import Condition, Loop, SourceCode
from ddpdoctor.evidence.stacks import GivenRoot, LoopTurn, Stacks
from ddpdoctor.model import SkipCheck

# no rank comes out of these before every other has reached them; a root may come out of a broadcast, and the others follow
MEETS_ALL = re.compile(rf"barrier|all_reduce|all_gather|reduce_scatter|all_to_all|{NEW_GROUP}")
# out of these a rank may come while another still waits: who is past them may have called them
_LETS_OUT = re.compile(r"(?:broadcast|gather|reduce|scatter)(?:_object|_object_list|_multigpu)?$")
_BEHIND_CALLS = frozenset({Activity.COLLECTIVE, Activity.DEVICE})
_NOT_RECORDED = (NEW_GROUP, "monitored_barrier")  # by flight recorders
HOW_IT_IS_KNOWN = "inferred from current stacks only; run under `ddpdoctor watch` to find the first extra call"


def derive(
    activities: Activities,
    stacks: PerRank[Stacks],
    timeline: Timeline | None,
    code: SourceCode | None,
    size: JobSize | None,
    turns: PerRank[LoopTurn] | None = None,
    roots: PerRank[GivenRoot] | None = None,
) -> StackDesync:
    """The two sides, where every rank waits in a collective, none moves, and the source shows how they diverged.

    Raises:
        SkipCheck: a recorder shows more, somebody does something else, or what the source shows does not decide.
    """
    unrecorded = any(activity.operation in _NOT_RECORDED for activity in activities.each)
    if timeline is not None and not unrecorded:
        raise SkipCheck("the flight recorders tell more")
    if size is not None and len(activities.each) < size.ranks:
        raise SkipCheck(f"only {len(activities.each)} of {size.ranks} ranks could be looked at")
    if not all(activity.kind in _BEHIND_CALLS and activity.stands_still for activity in activities.each):
        raise SkipCheck("some rank does something else than to wait in a collective")
    if any(one.operation == UNKNOWN_CALL or POINT_TO_POINT.search(one.operation) for one in activities.each):
        raise SkipCheck(
            "a rank waits for an asynchronous call, a send or a receive, and its stack does not tell for whom"
        )
    paths = {entry.rank: program_frames(entry.value.main.frames if entry.value.main else ()) for entry in stacks}
    of_rank = {activity.rank: activity for activity in activities.each}
    by_stack = by_rank(stacks)
    found = _diverged(of_rank, paths, by_stack, code) if code is not None else None
    if found is not None:
        return found
    if not all(activity.kind is Activity.COLLECTIVE for activity in activities.each):
        raise SkipCheck("some rank waits for its device, and the source does not show behind which call")
    by_source = by_a_call_of_some(of_rank, paths, code)
    try:
        found = _by_their_places(of_rank, paths, by_stack, code, turns, roots)
    except SkipCheck:
        found = by_source or _in_calls_of_all(of_rank, paths, by_stack, code)
        if found is None:
            raise
    return found if by_source is None or _tells_more(found, by_source) else by_source


def _tells_more(found: StackDesync, by_source: StackDesync) -> bool:
    """Whether the places tell more than the source: not that the ranks that alone make a call have left a loop.

    Their extra call met the next one of the others, so that these reached a later turn. Where a statement under a test of the
    rank leads out of that loop, there are two such explanations, and the places are those of the one.
    """
    if found.cause is Cause.LEFT and by_source.cause is Cause.EXTRA and found.culprits == by_source.culprits:
        exits = (jump for _, loop in found.loops_left for jump in loop.jumps if jump.word != "continue")
        return any(is_rank_test(jump.test, by_rank=jump.by_rank) for jump in exits)
    return found.is_told_by_the_rank


def _by_their_places(
    by_rank: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    by_stack: Mapping[int, Stacks],
    code: SourceCode | None,
    turns: PerRank[LoopTurn] | None,
    roots: PerRank[GivenRoot] | None,
) -> StackDesync:
    """The two sides by what the source shows of the lines at which they wait."""
    sides = sides_of(by_rank, paths, code)
    if len(sides) > 2:
        sides = one_side_and_all_others(sides, by_rank, paths, code) or sides
    if len(sides) != 2:
        raise SkipCheck("the ranks wait in one place, or in more than two")
    requested = _by_request(sides, by_rank, paths, code)
    if requested is not None:
        return requested
    votes = vote_of(sides)
    fewer, more = votes.sides[1], votes.sides[0]
    together = all(in_one_turn(by_stack[one], by_stack[other], code) for one in fewer for other in more)
    minority, majority, comparison = seen_from_minority(
        fewer, more, paths, code, tied=votes.tied, further=() if together else None
    )
    if together:
        comparison = _with_the_loop_inside(comparison, paths[minority[0]], paths[majority[0]], code)
    cause = cause_of(comparison, by_rank[minority[0]].operation, by_rank[majority[0]].operation)
    _refuse_that_moved_on(comparison, minority, majority, by_rank, roots)
    if cause is Cause.LEFT and votes.tied and comparison.again:
        # the other may have left that call out, and be in its next turn
        cause, minority, majority = Cause.EXTRA, majority, minority
    _refuse_without_a_reason(cause, comparison, minority[0], majority[0], by_rank, paths, code)
    last = {entry.rank: entry.value for entry in turns or () if comparison.loop is not None}
    counted = cause is Cause.LEFT and not comparison.again and {*last} >= {*minority, *majority}
    within = _within(comparison, [frame for rank in majority for frame in paths.get(rank, ())], code)
    return StackDesync(
        cause=cause,
        minority=tuple(by_rank[rank] for rank in minority),
        majority=tuple(by_rank[rank] for rank in majority),
        tied=votes.tied and cause is not Cause.LEFT and not (comparison.decides or comparison.is_exempted),
        comparison=comparison,
        skips=tuple(_skips(comparison.loop, [frame for side in sides for frame in paths.get(side[0], ())], code)),
        turns={rank: turn.turn for rank, turn in last.items()} if counted else {},
        passed_over=counted and _made_as_many(comparison.loop, within, last, minority, majority),
    )


def _refuse_that_moved_on(
    comparison: Comparison,
    minority: Sequence[int],
    majority: Sequence[int],
    by_rank: Mapping[int, RankActivity],
    roots: PerRank[GivenRoot] | None,
) -> None:
    """Raises SkipCheck where one side may have been in the call of the other, and have gone on from it alone."""
    past = {Relation.PAST: minority, Relation.WITHIN: majority}.get(comparison.relation, ())
    if past and not _holds_all(by_rank[past[0]]):
        raise SkipCheck("the ranks in the loop may have been in the call behind it before, and have gone on")
    inside = {Relation.PAST: majority, Relation.WITHIN: minority}.get(comparison.relation, ())
    if any(_LETS_OUT.match(by_rank[rank].operation) for rank in inside) and not _have_one_root(inside, roots):
        raise SkipCheck("the ranks that have gone on may have been in the call in which the others wait")


def _refuse_without_a_reason(
    cause: Cause,
    comparison: Comparison,
    mine: int,
    theirs: int,
    by_rank: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    code: SourceCode | None,
) -> None:
    """Raises SkipCheck where the source does not show how these ranks, one of each side, reached different collectives."""
    under = by_rank[theirs if comparison.relation is Relation.UNCONDITIONAL else mine]
    if cause is Cause.MISMATCH:
        if not _in_two_branches(comparison, by_rank[mine], by_rank[theirs]):
            raise SkipCheck("the ranks wait in different collectives, and the source does not show how they diverged")
        if _may_have_groups([frame for rank in (mine, theirs) for frame in paths.get(rank, ())], code):
            raise SkipCheck("the ranks wait in different collectives, which may be of groups of their own")
    elif comparison.condition is not None and not _decides(comparison.condition, under):
        raise SkipCheck("the ranks wait in different collectives, and the source does not show how they diverged")


def _in_calls_of_all(
    by_rank: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    stacks: Mapping[int, Stacks],
    code: SourceCode | None,
) -> StackDesync | None:
    """The two sides by calls that no rank leaves before all have come: each at the line where its call path diverges."""
    calls = calls_of_all({rank: one.operation for rank, one in by_rank.items()}, paths, stacks, code)
    votes = vote(calls) if calls is not None else None
    if votes is None or len(votes.sides) != 2:
        return None
    depth = shared_depth(paths)
    diverged = {
        rank: replace(one, place=paths[rank][min(depth, len(paths[rank]) - 1)]) for rank, one in by_rank.items()
    }
    return StackDesync(
        cause=Cause.MISMATCH,
        minority=tuple(diverged[rank] for rank in votes.sides[1]),
        majority=tuple(diverged[rank] for rank in votes.sides[0]),
        tied=votes.tied,
        comparison=Comparison(Relation.ELSEWHERE),
    )


def _by_request(
    sides: Sequence[Sequence[int]],
    by_rank: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    code: SourceCode | None,
) -> StackDesync | None:
    """Of ranks in two calls of a framework, below one line of the user's: those that a test of the rank let ask for theirs."""
    if len({only_users(paths.get(rank, ())) for rank in by_rank}) != 1:
        return None
    for asked in rank_requests(code, "call"):
        made_by = asked.made_by(sorted(by_rank))
        if made_by in map(tuple, sides):
            return StackDesync(
                cause=Cause.EXTRA,
                minority=tuple(by_rank[rank] for rank in made_by),
                majority=tuple(one for rank, one in by_rank.items() if rank not in made_by),
                tied=False,
                comparison=Comparison(Relation.CONDITIONAL, condition=asked.condition, frame=asked.frame),
                request=asked,
            )
    return None


def _diverged(
    by_rank: Mapping[int, RankActivity],
    paths: Mapping[int, tuple[Frame, ...]],
    stacks: Mapping[int, Stacks],
    code: SourceCode,
) -> StackDesync | None:
    """The two sides by what ranks called in one turn of all loops, on two call paths."""
    first, *others = stacks.values()
    if {*by_rank} != {*paths} or not others or not all(in_one_turn(first, other, code) for other in others):
        return None
    alike = len({*paths.values()}) == 1
    found = by_branches(paths[min(paths)], sorted(paths), code) if alike else by_functions(paths, stacks, code)
    votes = vote({rank: found.calls[rank].op if rank in found.calls else "" for rank in by_rank}) if found else None
    if found is None or votes is None or len(votes.sides) != 2 or not all(map(_meets_all, found.calls.values())):
        return None
    minority, majority = votes.sides[1], votes.sides[0]
    if len(found.calls) < len(by_rank) and votes.tied and minority[0] not in found.calls:
        minority, majority = majority, minority
    called = {
        rank: replace(one, operation=found.calls[rank].op, place=found.calls[rank].place)
        if rank in found.calls
        else one
        for rank, one in by_rank.items()
    }
    if len(found.calls) == len(by_rank):
        relation, cause = Relation.BRANCHES, Cause.MISMATCH
    elif minority[0] in found.calls:
        relation, cause = Relation.CONDITIONAL, Cause.EXTRA
    else:
        relation, cause = Relation.UNCONDITIONAL, Cause.MISSING
    condition = found.conditions.get(minority[0]) or found.conditions.get(majority[0])
    comparison = Comparison(
        relation if condition is not None else Relation.ELSEWHERE, condition=condition, frame=found.frame
    )
    return StackDesync(
        cause=cause,
        minority=tuple(called[rank] for rank in minority),
        majority=tuple(called[rank] for rank in majority),
        tied=votes.tied and (cause is Cause.MISMATCH or not comparison.decides),
        comparison=comparison,
    )


def _meets_all(call: FirstCall) -> bool:
    return bool(MEETS_ALL.search(call.op))


def _with_the_loop_inside(
    comparison: Comparison, one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None
) -> Comparison:
    """The comparison with the loop of a function that one rank is in and the other is past, in one turn of all loops around both.

    The rank that is past has left that loop, as it is not in a later turn of another.
    """
    inside = {Relation.PAST: other, Relation.WITHIN: one}.get(comparison.relation)
    if inside is None or comparison.loop is not None or comparison.frame is None or code is None:
        return comparison
    called_from = (comparison.frame.file, comparison.frame.function)
    depth = next((at for at, frame in enumerate(inside) if (frame.file, frame.function) == called_from), len(inside))
    for frame in inside[depth + 1 :]:
        place = code.at(frame.file, frame.line)
        if place is not None and place.loops:
            return replace(comparison, loop=place.loops[0], frame=frame, again=False)
    return comparison


def _within(comparison: Comparison, frames: Sequence[Frame], code: SourceCode | None) -> list[Loop] | None:
    """The loops inside of the compared one in which all these ranks stand, outermost first; None where they differ."""
    known = comparison.frame
    found = []
    for frame in frames:
        if known is not None and code is not None and (frame.file, frame.function) == (known.file, known.function):
            place = code.at(frame.file, frame.line)
            if place is not None and comparison.loop in place.loops:
                found.append(list(place.loops[place.loops.index(comparison.loop) + 1 :]))
    return found[0] if found and all(one == found[0] for one in found) else None


def _made_as_many(
    loop: Loop | None,
    within: Sequence[Loop] | None,
    turns: Mapping[int, LoopTurn],
    gone: Sequence[int],
    others: Sequence[int],
) -> bool:
    """Whether ranks past a loop made as many turns as those in it have begun; in its last turn a rank may have left it early.

    A turn of an outer loop has as many calls as an inner loop has turns, which may be fewer on one rank. Only where all stand
    in one turn of both loops, and none can leave either, has a rank passed over a call.
    """
    if loop is None or within is None:
        return False
    least, most = min(turns[rank].turn for rank in gone), max(turns[rank].turn for rank in others)
    leaves = any(jump.word != "continue" for one in (loop, *within) for jump in one.jumps)
    if within:
        inner = {turns[rank].inner for rank in (*gone, *others)}
        return least == most and not leaves and len(inner) == 1 and None not in inner
    return least > most or (least == most and not leaves)


def innermost_counter(found: StackDesync, stacks: PerRank[Stacks] | None, code: SourceCode | None) -> str:
    """The name that counts the turns of the innermost loop in which the ranks of the majority stand; empty where none does."""
    ranks = {activity.rank for activity in found.majority}
    mains = [entry.value.main for entry in stacks or () if entry.rank in ranks]
    within = _within(found.comparison, [frame for main in mains if main for frame in program_frames(main.frames)], code)
    return within[-1].counter if within else ""


def _skips(loop: Loop | None, frames: Sequence[Frame], code: SourceCode | None) -> Iterator[str]:
    """The `continue`s of this loop, which one of these frames is in."""
    if loop is None or code is None:
        return
    for frame in frames:
        place = code.at(frame.file, frame.line)
        if place is not None and loop in place.loops:
            yield from (f"{PurePath(frame.file).name}:{line}" for line in loop.skips)
            return


def _have_one_root(ranks: Sequence[int], roots: PerRank[GivenRoot] | None) -> bool:
    known = {entry.rank: entry.value.root for entry in roots or ()}
    return len({known.get(rank) for rank in ranks}) == 1 and {*ranks} <= {*known}


def _holds_all(activity: RankActivity) -> bool:
    """Whether no rank can have come through the call that this one waits in."""
    return activity.operation == BACKWARD or bool(MEETS_ALL.search(activity.operation))


def _in_two_branches(comparison: Comparison, one: RankActivity, other: RankActivity) -> bool:
    """Whether a test of the rank sent both to calls that differ, and that no rank can have come through alone."""
    condition = comparison.condition
    diverged = comparison.relation is Relation.BRANCHES and condition is not None and tells_ranks_apart(condition)
    meet = all(MEETS_ALL.search(activity.operation) for activity in (one, other))
    return diverged and meet and one.operation != other.operation


def _may_have_groups(frames: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether one of these lines makes a call of a process group: calls of two groups are no mismatch."""
    places = (code.at(frame.file, frame.line) for frame in frames) if code is not None else ()
    return any(place is not None and place.grouped for place in places)


def _decides(condition: Condition, under: RankActivity) -> bool:
    """Whether the ranks that are not under `condition` cannot have been there before, and gone on."""
    return tells_ranks_apart(condition) or bool(MEETS_ALL.search(under.operation))
