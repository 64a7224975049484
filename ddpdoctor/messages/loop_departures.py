"""How ranks left their loop or passed over a batch, in words and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from ddpdoctor.analysis.collectives.desync import Desync, loops_left
from ddpdoctor.analysis.collectives.loop_departures import How, LoopDeparture
from ddpdoctor.analysis.collectives.rank_tests import is_rank_test, lets_pass_only, ranks_under, selects_ranks
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.source import Jump, Loop, SourceCode
from ddpdoctor.model import Where, group_ranks

MIXED = "since then gradients are averaged with those of other steps"
LENGTHS = "give every rank the same number of batches (DistributedSampler with drop_last), or train under `with Join([model]):`"
_OF_A_LENGTH = re.compile(r" in range\(.*[^\W\d]|^while .*[<>].*[^\W\d]")
"""The head of a loop that counts up to what the program computes, or compares with it."""
MOST_JUMPS = 3  # that are shown, where none is under a test of the rank


def sentence(departure: LoopDeparture) -> str:
    """`rank 1 left its loop after drawing 20 of 32 batches, and rank 0 went on to batch 21`."""
    ranks, others = group_ranks(departure.ranks), group_ranks(departure.others)
    match departure.how:
        case How.LEFT:
            of = f" of {departure.lengths[departure.ranks[0]]}" if departure.ranks[0] in departure.lengths else ""
            went_on = f"; {others} went on to batch {departure.batches + 1}" if departure.batches is not None else ""
            return f"{ranks} left {_its(departure)} loop after drawing {departure.batches}{of} batches{went_on}"
        case How.SHORT:
            return f"a pass over the data has {_lengths(departure)}"
        case How.ENDED:
            return f"{ranks} ended {_its(departure)} loop after forward {departure.iteration}, and {others} made a further one"
        case How.SKIPPED:
            before = f" before forward {departure.forwards + 1}" if departure.forwards is not None else ""
            return f"{ranks} passed over a batch{before}, and {others} did not"
        case How.IRREGULAR:
            made, usual = (departure.lengths[side[0]] for side in (departure.ranks, departure.others))
            return (
                f"with forward {departure.forwards} {ranks} made {_collectives(made)}, and {others} {usual}, as usual"
            )


def _its(departure: LoopDeparture) -> str:
    return "its" if len(departure.ranks) == 1 else "their"


def _collectives(count: int) -> str:
    return f"{count or 'no'} collective{'' if count == 1 else 's'}"


def _lengths(departure: LoopDeparture) -> str:
    """`7 batches on rank 1 and 10 on rank 0`."""
    by_length: dict[int, list[int]] = {}
    for rank in (*departure.ranks, *departure.others):
        if rank in departure.lengths:
            by_length.setdefault(departure.lengths[rank], []).append(rank)
    (first, ranks), *rest = by_length.items()
    return " and ".join(
        [f"{first} batches on {group_ranks(ranks)}", *(f"{length} on {group_ranks(others)}" for length, others in rest)]
    )


def skips(departure: LoopDeparture) -> list[str]:
    """The `continue`s, as `train.py:58`, by which a rank that came to the end of its loop early may have passed over a turn.

    None where batches were counted: these tell how many each rank drew.
    """
    if departure.how is not How.ENDED or departure.frame is None or departure.loop is None:
        return []
    return [f"{PurePath(departure.frame.file).name}:{line}" for line in departure.loop.skips]


def where(departure: LoopDeparture) -> list[Where]:
    """The statements by which the ranks may have left the loop or its turn, or else the head of the loop."""
    frame, loop = departure.frame, departure.loop
    if frame is None or loop is None:
        return []
    shown: Sequence[tuple[int, str]] = [(jump.line, _note(jump)) for jump in departure.jumps[:MOST_JUMPS]]
    if not shown and departure.how is How.IRREGULAR:
        shown = [(frame.line, f"near forward {departure.forwards}")]
    elif not shown:
        shown = [(loop.line, f"the loop `{loop.head}`")]
    return [
        Where.at(Frame(file=frame.file, line=line, function=frame.function), rank=rank, note=note)
        for line, note in shown
        for rank in departure.ranks
    ]


def ways_out(
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
        place = Frame(file=frame.file, line=jump.line, function=frame.function)
        yield from (Where.at(place, rank=rank, note=_note(jump)) for rank in ranks)


def only_way_out(left: Iterable[tuple[Frame, Loop]], ranks: Sequence[int]) -> Iterator[Where]:
    """What alone can have let these ranks out of all these loops early: one `break` or `return`, or a head that says how long.

    The loops come outermost first. Nothing where there are several ways, or none that the source shows.
    """
    left = [*left]
    jumps = {(frame.file, jump.line) for frame, loop in left for jump in loop.jumps if jump.word != "continue"}
    if jumps:
        yield from ways_out(left, ranks) if len(jumps) == 1 else ()
        return
    for frame, loop in left:
        if _OF_A_LENGTH.search(loop.head):
            place = Frame(file=frame.file, line=loop.line, function=frame.function)
            yield from (Where.at(place, rank=rank, note=f"the loop `{loop.head}`") for rank in ranks)
            return


def ways_past(over: Iterable[tuple[Frame, Jump]], ranks: Sequence[int]) -> Iterator[Where]:
    """The statements by which these ranks may have passed over the rest of a turn; not those whose test names another rank."""
    for frame, jump in [*over][:MOST_JUMPS]:
        under = ranks_under(jump.condition, ranks) if selects_ranks(jump.test) else ranks
        place = Frame(file=frame.file, line=jump.line, function=frame.function)
        note = f"{_note(jump)}: a turn that takes it makes no such call"
        yield from (Where.at(place, rank=rank, note=note) for rank in under)


def ways_out_of_training(
    calls: PerRank[CollectiveCalls] | None, ranks: Sequence[int], code: SourceCode | None
) -> Iterator[Where]:
    """The statements under a test of the rank by which ranks may have left the loops around their last forward, and ended."""
    for entry in calls or ():
        if entry.rank in ranks and entry.value.forwards and code is not None:
            frames = only_users(entry.value.forwards[-1].stack)
            places = [(frame, place) for frame in frames if (place := code.at(frame.file, frame.line)) is not None]
            left = dict.fromkeys((frame, loop) for frame, place in places for loop in place.loops)
            yield from ways_out(left, [entry.rank], by_rank_only=True)


def ways_out_of_waiting(desync: Desync, code: SourceCode | None) -> Iterator[Where]:
    """The statements whose tests let exactly the ranks that ended out of loops in which all others wait."""
    shown = set()
    for frame, loop in loops_left(desync, code) if desync.ended else ():
        for jump in loop.jumps:
            leads_out = jump.word in ("break", "return") and (frame.file, jump.line) not in shown
            if leads_out and lets_pass_only(jump, desync.ended, [*desync.issued]):
                shown.add((frame.file, jump.line))
                place = Frame(file=frame.file, line=jump.line, function=frame.function)
                yield from (Where.at(place, rank=rank, note=_note(jump)) for rank in desync.ended)


def ways_out_between(
    waiting: Iterable[tuple[Frame, Loop]],
    ended: Sequence[int],
    others: Sequence[int],
    calls: PerRank[CollectiveCalls] | None,
    code: SourceCode | None,
) -> Iterator[Where]:
    """The statements between the last forward that all ranks called and the call that the ones that `ended` did not come to.

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
            yield from ways_out([(frame, replace(loop, jumps=between))], ended)


def _note(jump: Jump) -> str:
    under = "not" if jump.branch else "inside"
    return f"`{jump.word}`" + (f" {under} `if {jump.test}`" if jump.test else "")
