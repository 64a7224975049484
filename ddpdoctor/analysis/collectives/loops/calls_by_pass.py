"""The calls that ranks made in earlier turns of their loops: which made a call too, and how many each pass has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from ddpdoctor.analysis.collectives.recorders.call_sequences import program_stack
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Loop, SourceCode

PASSES_COMPARED = 3  # runs through a loop with equally many calls, the last one included
LOOKED_BACK = 64  # calls: more than a turn of a training loop makes


def left_as_always(
    timeline: Timeline,
    group: GroupTimeline,
    seq: int,
    loop: Loop | None,
    code: SourceCode | None,
    again: Sequence[int],
    there: Sequence[int],
) -> bool:
    """Whether the ranks `there` left the loop after as many calls as before, and those in it have made no more: a new pass.

    Both are seen at call number `seq` of the group.
    """
    if code is None or loop is None:
        return False
    left = [_calls_by_pass(timeline, group, rank, seq, loop, code) for rank in there]
    within = [_calls_by_pass(timeline, group, rank, seq, loop, code) for rank in again]
    counts = {made for passes in left for made in passes[-PASSES_COMPARED:]}
    return (
        all(len(passes) >= PASSES_COMPARED for passes in left)
        and len(counts) == 1
        and all(len(passes) > 1 and passes[-1] <= min(counts) for passes in within)
    )


def made_by_all_before(
    timeline: Timeline, group: GroupTimeline, programs: Collection[tuple[Frame, ...]], until: Mapping[int, int]
) -> bool:
    """Whether each of these ranks made the call with this program too, at its call number in `until` or shortly before.

    False where `programs` are several, or hold no frames.
    """
    if len(programs) != 1 or () in programs:
        return False
    made = (
        timeline.issued(group, rank, seq) for rank, last in until.items() for seq in range(last, last - LOOKED_BACK, -1)
    )
    return {issued.rank for issued in made if issued is not None and issued.program in programs} == {*until}


def a_turn_further(timeline: Timeline, group: GroupTimeline, issued: IssuedCall, other: IssuedCall) -> bool:
    """Whether this rank had made its call before, and not the other one since, as often as in the turn before.

    Then it makes it in another turn of a loop, and has passed over the other call. A call behind the other one, at a later line
    of the function in which both stand, ends the turn as well: not every turn may make the other call, as DDP's first forward.
    """
    runs = [0]
    for seq in range(issued.seq - 1, issued.seq - 1 - LOOKED_BACK, -1):
        made = timeline.issued(group, issued.rank, seq)
        if made is not None and (made.program == other.program or _is_behind(made, other, issued)):
            runs.append(0)
        elif made is not None and made.program == issued.program:
            runs[-1] += 1
        if len(runs) > 2:
            break
    return runs[0] > 0 and runs[0] >= runs[min(1, len(runs) - 1)]


def _is_behind(made: IssuedCall, other: IssuedCall, issued: IssuedCall) -> bool:
    """Whether a call comes after the other one in the function in which that and the rank's own one stand, in this order."""
    depth = next(
        (
            depth
            for depth, (mine, theirs) in enumerate(zip(issued.program, other.program, strict=False))
            if mine != theirs
        ),
        None,
    )
    if depth is None or len(made.program) <= depth or made.program[:depth] != issued.program[:depth]:
        return False
    own, its, there = issued.program[depth], other.program[depth], made.program[depth]
    in_one = len({(frame.file, frame.function) for frame in (own, its, there)}) == 1
    return in_one and own.line < its.line < there.line


def _calls_by_pass(
    timeline: Timeline, group: GroupTimeline, rank: int, seq: int, loop: Loop, code: SourceCode
) -> list[int]:
    """How many calls, of any group, the rank made in each run through the loop, until call number `seq` of the group."""
    sequence = group.group_sequences.sequence(rank)
    if sequence is None or not sequence.first <= seq <= sequence.last:
        return []
    until = sequence.entries[seq - sequence.first]
    within = [_is_in(frames, loop, code) for frames in _stacks(timeline, rank, until)]
    return [sum(1 for _ in run) for is_in, run in groupby(within) if is_in]


def _stacks(timeline: Timeline, rank: int, until: int) -> Iterator[tuple[Frame, ...]]:
    """The frames of the entries up to number `until`, of those of which any are known."""
    record = timeline.call_index.records[rank]
    for entry in range(until + 1):
        name = record.groups[record.calls[record.call[entry]].group].name
        stack = program_stack(record, record.stack[entry])
        stack = stack or timeline.call_index.lines.of(rank, name, record.seq[entry], waits=False)
        if stack:
            yield stack


def _is_in(stack: Sequence[Frame], loop: Loop, code: SourceCode) -> bool:
    places = (code.at(frame.file, frame.line) for frame in stack)
    return any(place is not None and loop in place.loops for place in places)
