"""How ranks that ended early left those that still needed them, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.groups.desync import Desync
from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages import ways_out
from ddpdoctor.messages.collectives import names
from ddpdoctor.model import Where, group_ranks, verb

BY_EARLIER_TURNS = "found by the calls that followed in earlier turns of the loop"
_DDP = "/torch/nn/parallel/distributed.py"


def left_by(exits: PerRank[RankExit] | None, ranks: Sequence[int]) -> list[Where]:
    """The lines at which these ranks called for their exit, as far as they did; every process of mp.spawn ends by such a call."""
    found = []
    for entry in exits or ():
        left_by = entry.value.left_by
        spawned = bool(left_by) and left_by[0].file.endswith("/multiprocessing/spawn.py")
        place = users_frame(left_by) if entry.rank in ranks and not spawned else None
        if place is not None:
            found.append(Where.at(place, rank=entry.rank, note="left here with exit code 0"))
    return found


def in_a_loop(exits: PerRank[RankExit] | None, ranks: Sequence[int], code: SourceCode | None) -> bool:
    """Whether these ranks called for their exit in the middle of a loop."""
    stacks = [entry.value.left_by for entry in exits or () if entry.rank in ranks]
    places = [code.at(frame.file, frame.line) for stack in stacks for frame in stack] if code is not None else []
    return any(place is not None and place.loops for place in places)


def out_of_the_same_loop(
    finished: Sequence[int], lost: Sequence[Failure], calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> Iterator[Where]:
    """The statements by which ranks that ended may have left the loop in which the others lost them, in the same pass."""
    stack = lost[0].error.stack if lost[0].error is not None else ()
    places = [(frame, place) for frame in stack if code is not None and (place := code.at(frame.file, frame.line))]
    loops = {(frame.file, loop): frame for frame, place in places for loop in place.loops}
    waiting = [(frame, loop) for (_, loop), frame in loops.items()]
    between = [*ways_out.between(waiting, finished, unique_ranks(lost), calls, code)]
    yield from between or ways_out.only_one(waiting, finished, calls, code)


def returned_before(
    finished: Sequence[int], lost: Sequence[Failure], calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> Iterator[Where]:
    """The `return` by which ranks that ended left the function in which the others lost them."""
    stack = lost[0].error.stack if lost[0].error is not None else ()
    yield from ways_out.returned(stack, finished, calls, code)


def trained_alone(
    finished: Sequence[int], lost: Sequence[Failure], steps: Mapping[int, int], calls: PerRank[CollectiveCalls] | None
) -> bool:
    """Whether ranks made further steps than their peers without a forward of a DDP model, which these called, or still made."""
    forwards = {entry.rank: len(entry.value.forwards) for entry in calls or ()}
    theirs = unique_ranks(lost)
    if not all(rank in steps and rank in forwards for rank in (*finished, *theirs)):
        return False
    wraps = {
        failure.rank
        for failure in lost
        if failure.error is not None and any(frame.file.endswith(_DDP) for frame in failure.error.stack)
    }
    further = min(steps[rank] for rank in finished) > max(steps[rank] for rank in theirs) + 1
    trained = all(forwards[rank] or rank in wraps for rank in theirs)
    return further and trained and not any(forwards[rank] for rank in finished)


def in_training(
    lost: Sequence[Failure], finished: Sequence[int], calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> bool:
    """Whether a rank lost its peers in the loop in which these had called their last forward, under no condition."""
    if code is None:
        return False
    trained = {
        (place.file, loop)
        for entry in calls or ()
        if entry.rank in finished and entry.value.forwards
        for forward in entry.value.forwards[-1:]
        if (place := code.at(forward.place.file, forward.place.line)) is not None
        for loop in place.loops
    }
    frames = (users_frame(failure.error.stack) for failure in lost if failure.error is not None)
    places = (code.at(frame.file, frame.line) for frame in frames if frame is not None)
    return any(
        (place.file, loop) in trained
        for place in places
        if place is not None and not place.conditions
        for loop in place.loops
    )


def more(longer: Sequence[int], *, counted: bool) -> str:
    """Said first where the few are those that went on: `rank 0 has more batches than its peers: `, if batches were counted."""
    if not longer:
        return ""
    if not counted:
        return f"{turns_again(longer)}: "
    have, its = verb(longer, "has", "have"), verb(longer, "its", "their")
    return f"{group_ranks(longer)} {have} more batches than {its} peers: "


def turns_again(ranks: Sequence[int]) -> str:
    """`rank 2 makes one more turn of the loop than its peers`."""
    make, its = verb(ranks, "makes", "make"), verb(ranks, "its", "their")
    return f"{group_ranks(ranks)} {make} one more turn of the loop than {its} peers"


def steps(ranks: Sequence[int], steps: Mapping[int, int]) -> str:
    """`30 steps`, or `30 to 31 steps` where they differ; empty where no count is known."""
    counts = sorted({steps[rank] for rank in ranks if rank in steps})
    if not counts:
        return ""
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} step{'s' if counts != [1] else ''}"


def sentence(desync: Desync, made: Mapping[int, int]) -> str:
    """That these ranks left or ended while others wait for them, and the steps that each had made."""
    minority, majority = group_ranks(desync.minority), group_ranks(desync.majority)
    after, still = steps(desync.minority, made), steps(desync.majority, made)
    there = f"{majority} {verb(desync.majority, 'waits', 'wait')} in {names(desync.issued, desync.majority)}"
    comparison = f", {verb(desync.majority, 'which has', 'which have')} made {still}" if after and still else ""
    if desync.ended:
        return f"{minority} ended with exit code 0{f' after {after}' if after else ''} while {there}{comparison}"
    left = f"{minority} left {verb(desync.minority, 'its', 'their')} loop{f' after {after}' if after else ''}"
    waits = verb(desync.minority, "waits", "wait")
    return f"{left} and {waits} in {names(desync.issued, desync.minority)} while {there}{comparison}"


def waits_elsewhere(desyncs: Sequence[Desync]) -> str:
    """`, and rank 2 waits in all_reduce #73 of group 1 (mesh_dp)` for each of these."""
    return "".join(
        f", and {group_ranks(desync.majority)} {verb(desync.majority, 'waits', 'wait')} in "
        f"{names(desync.issued, desync.majority)}"
        for desync in desyncs
    )


def or_skipped(ranks: Sequence[int], lines: Sequence[str]) -> Iterator[str]:
    """A rank that passes over a batch reaches the end of its loop as early as one that has fewer of them."""
    if lines:
        yield (
            f"{group_ranks(ranks)} ran out of batches, or skipped one at `continue` ({' or '.join(lines)}); if "
            "skipped, its gradients are off by one step (DDP316)"
        )
