"""The statements by which ranks may have left a loop, or a turn of it, as places of a finding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ddpdoctor.analysis.collectives.groups.desync import Desync, loops_left
from ddpdoctor.analysis.collectives.places.rank_tests import (
    asks_for_counts,
    is_rank_test,
    is_the_same_everywhere,
    lets_pass_only,
    ranks_under,
    selects_ranks,
)
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.source import Jump, Loop, SourceCode, place_of
from ddpdoctor.model import Where

MOST_JUMPS = 3  # that are shown, where none is under a test of the rank
_OF_A_LENGTH = re.compile(r" in range\(.*[^\W\d]|^while .*[<>].*[^\W\d]")
"""The head of a loop that counts up to what the program computes, or compares with it."""


def of_desync(desync: Desync, code: SourceCode | None) -> Iterator[Where]:
    """The `break`s and `return`s of the loops that ranks of a living job have left, and the others are still in."""
    if not desync.ended:
        left = loops_left(desync, code)
        yield from [*of_loops(left, desync.minority)] or if_only_one(left, desync.minority)


def only_continue(desync: Desync, code: SourceCode | None) -> Iterator[Where]:
    """The `continue` of these loops, where it is their only jump: a rank that passes over batches ends its loop early, too.

    Not one that passes over the first batches, or every Nth, on all ranks.
    """
    left = loops_left(desync, code) if not desync.ended else []
    jumps = {(frame.file, jump.line): jump for frame, loop in left for jump in loop.jumps}
    if len(jumps) == 1 and not any(asks_for_counts(jump.test) for jump in jumps.values()):
        yield from of_loops(left, desync.minority, words=("continue",))


def of_ended(desync: Desync, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None) -> Iterable[Where]:
    """The statements by which ranks that ended left the loop of their last forward, or that in which the others wait."""
    trained = [*of_training(calls, desync.ended, code)]
    waiting = [*_of_waiting(desync, code)]
    left = loops_left(desync, code) if desync.ended else ()
    within = [*between(left, desync.ended, desync.majority, calls, code)]
    theirs = [*desync.issued[desync.majority[0]].stack] if desync.ended and desync.majority[0] in desync.issued else []
    return (
        trained
        or waiting
        or within
        or [*only_one(left, desync.ended, calls, code)]
        or [*returned(theirs, desync.ended, calls, code)]
    )


def of_loops(
    left: Iterable[tuple[Frame, Loop]],
    ranks: Sequence[int],
    *,
    words: Sequence[str] = ("break", "return"),
    by_rank_only: bool = False,
) -> Iterator[Where]:
    """The statements by which these ranks may have left these loops, or with other `words` their turns; each line once.

    Each loop comes with a line in it. Those under a test of the rank, if any.
    """
    jumps = {
        (frame.file, jump.line): (frame, jump) for frame, loop in left for jump in loop.jumps if jump.word in words
    }
    found = [*jumps.values()]
    by_rank = [(frame, jump) for frame, jump in found if is_rank_test(jump.test, by_rank=jump.by_rank)]
    for frame, jump in (by_rank if by_rank or by_rank_only else found)[:MOST_JUMPS]:
        place = frame.at_line(jump.line)
        yield from (Where.at(place, rank=rank, note=note_of(jump)) for rank in ranks)


def if_only_one(left: Iterable[tuple[Frame, Loop]], ranks: Sequence[int]) -> Iterator[Where]:
    """What alone can have let these ranks out of all these loops early: one `break` or `return`, or a head that says how long.

    The loops come outermost first. Nothing where there are several ways, or none that the source shows.
    """
    left = [*left]
    jumps = {(frame.file, jump.line) for frame, loop in left for jump in loop.jumps if jump.word != "continue"}
    if jumps:
        yield from of_loops(left, ranks) if len(jumps) == 1 else ()
        return
    for frame, loop in left:
        if _OF_A_LENGTH.search(loop.head):
            place = frame.at_line(loop.line)
            yield from (Where.at(place, rank=rank, note=f"the loop `{loop.head}`") for rank in ranks)
            return


def past_a_turn(over: Iterable[tuple[Frame, Jump]], ranks: Sequence[int]) -> Iterator[Where]:
    """The statements by which these ranks may have passed over the rest of a turn; not those whose test names another rank."""
    for frame, jump in [*over][:MOST_JUMPS]:
        under = ranks_under(jump.condition, ranks) if selects_ranks(jump.test) else ranks
        place = frame.at_line(jump.line)
        note = f"{note_of(jump)}: a turn that takes it makes no such call"
        yield from (Where.at(place, rank=rank, note=note) for rank in under)


def of_training(
    calls: PerRank[CollectiveCalls] | None, ranks: Sequence[int], code: SourceCode | None
) -> Iterator[Where]:
    """The statements under a test of the rank by which ranks may have left the loops around their last forward, and ended."""
    for entry in calls or ():
        if entry.rank in ranks and entry.value.forwards and code is not None:
            frames = only_users(entry.value.forwards[-1].stack)
            places = [(frame, place) for frame in frames if (place := code.at(frame.file, frame.line)) is not None]
            left = dict.fromkeys((frame, loop) for frame, place in places for loop in place.loops)
            yield from of_loops(left, [entry.rank], by_rank_only=True)


def _of_waiting(desync: Desync, code: SourceCode | None) -> Iterator[Where]:
    """The statements whose tests let exactly the ranks that ended out of loops in which all others wait."""
    shown = set()
    for frame, loop in loops_left(desync, code) if desync.ended else ():
        for jump in loop.jumps:
            leads_out = jump.word in ("break", "return") and (frame.file, jump.line) not in shown
            if leads_out and lets_pass_only(jump, desync.ended, [*desync.issued]):
                shown.add((frame.file, jump.line))
                place = frame.at_line(jump.line)
                yield from (Where.at(place, rank=rank, note=note_of(jump)) for rank in desync.ended)


def between(
    waiting: Iterable[tuple[Frame, Loop]],
    ended: Sequence[int],
    others: Sequence[int],
    calls: PerRank[CollectiveCalls] | None,
    code: SourceCode | None,
) -> Iterator[Where]:
    """The statements between the last forward that all ranks called and the call that the ones that `ended` did not reach.

    Only of a loop in which both stand, so that there is no other way past that call but out of the loop. `waiting` are the loops
    in which the others wait, each with a line in it.
    """
    last = {entry.rank: entry.value.forwards[-1] for entry in calls or () if entry.value.forwards}
    everyone = (*ended, *others)
    if not ended or not {*everyone} <= {*last} or len({last[rank].number for rank in everyone}) > 1:
        return
    before = {(frame.file, frame.function): frame.line for frame in last[ended[0]].stack}
    for frame, loop in waiting:
        trained = before.get((frame.file, frame.function))
        place = code.at(frame.file, trained) if code is not None and trained is not None else None
        passes_over = any(jump.word == "continue" for jump in loop.jumps)
        if trained is not None and place is not None and loop in place.loops and not passes_over:
            between = tuple(jump for jump in loop.jumps if trained < jump.line < frame.line)
            yield from of_loops([(frame, replace(loop, jumps=between))], ended)


def only_one(
    waiting: Iterable[tuple[Frame, Loop]],
    ended: Sequence[int],
    calls: PerRank[CollectiveCalls] | None,
    code: SourceCode | None,
) -> Iterator[Where]:
    """What alone can have ended the loops in which these ranks called their last forward, and in which the others wait."""
    trained = {
        (place.file, loop)
        for entry in calls or ()
        if entry.rank in ended and entry.value.forwards and code is not None
        for frame in only_users(entry.value.forwards[-1].stack)
        if (place := code.at(frame.file, frame.line)) is not None
        for loop in place.loops
    }
    left = [(frame, loop) for frame, loop in waiting if (frame.file, loop) in trained]
    yield from if_only_one(left, ended)


def returned(
    stack: Iterable[Frame], ranks: Sequence[int], calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> Iterator[Where]:
    """The one `return` by which ranks that ended left a function of this `stack`, in which others went on.

    They had made their last call in it, and there is no other way past the line of the others.
    """
    last = {entry.rank: entry.value.calls[-1].place for entry in calls or () if entry.value.calls}
    for frame in stack:
        place = place_of(code, frame)
        if place is None or not all(_is_above(last.get(rank), frame) for rank in ranks):
            continue
        for rank in ranks:
            called = last[rank]
            found = [jump for jump in place.exits if called is not None and called.line < jump.line < frame.line]
            if len(found) == 1 and found[0].word == "return" and not is_the_same_everywhere(found[0].condition):
                yield Where.at(frame.at_line(found[0].line), rank=rank, note=note_of(found[0]))
        return


def _is_above(called: Frame | None, frame: Frame) -> bool:
    """Whether a call is in the function of this frame, above its line."""
    return (
        called is not None
        and (called.file, called.function) == (frame.file, frame.function)
        and called.line < frame.line
    )


def note_of(jump: Jump) -> str:
    """The word of the statement, with the test that it stands under: `break` inside `if step > 9`."""
    under = "not" if jump.branch else "inside"
    return f"`{jump.word}`" + (f" {under} `if {jump.test}`" if jump.test else "")
