"""Why the ranks of a process group met in different collectives: one called too much, left, or took another branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath

from ddpdoctor.analysis.collectives.places.framework_requests import RankRequest
from ddpdoctor.analysis.collectives.places.rank_tests import is_rank_test
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.recorders.sequence_offset import SequenceOffset
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Jump, Loop, SourceCode, place_of

LEAVING = {"barrier"}  # what loops are usually followed by, where the source is not available


class Cause(Enum):
    """What the minority did."""

    EXTRA = "called what the others never call"
    MISSING = "never called what the others call"
    LEFT = "ended their loop, or the program, while others still needed them"
    MISMATCH = "called another operation at the same point"
    RACE = "called from several threads in turns, in an order that is chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desync:
    """One group whose ranks are out of step, or in step but in different operations."""

    cause: Cause
    """What one side did, or did not do, that the other did."""
    group: GroupTimeline
    """The calls of all ranks in the process group that is out of step."""
    seq: int
    """The number of the call at which they diverged."""
    minority: tuple[int, ...]
    """The ranks on the side that is reported."""
    majority: tuple[int, ...]
    """The ranks on the other side."""
    tied: bool
    """Whether there is no majority: either side may be at fault."""
    issued: Mapping[int, IssuedCall]
    """By rank, what it called when they diverged; a rank that ended before has no entry."""
    comparison: Comparison
    """The place of the first rank of the minority, seen from the majority."""
    offset: SequenceOffset | None = None
    """By how much the numbers of calls differ, where calls were mispaired for a while and nobody noticed."""
    met: Mapping[int, IssuedCall] | None = None
    """By rank, the call in which the mispaired calls ended."""
    ended: tuple[int, ...] = ()
    """The ranks that exited with code 0."""
    counts: Mapping[int, int] = field(default_factory=dict)
    """By rank, how many collectives it had called, where all exited with code 0 and only these numbers differ."""
    request: RankRequest | None = None
    """The statement by which the minority alone had a framework make the call."""
    more_turns: tuple[int, ...] = ()
    """The few ranks that make a call of every turn of their loop once more, when the others are past the loop or have ended."""
    alike: tuple[Desync, ...] = ()
    """Those of other groups with the same part in the job, whose ranks did the same with the same call."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks at fault: the minority, or both sides where it cannot be told."""
        return tuple(sorted({*self.minority, *self.majority})) if self.tied else self.minority

    @property
    def all_culprits(self) -> list[int]:
        """The ranks at fault in this group, and in those in which others did the same."""
        return sorted({rank for one in (self, *self.alike) for rank in one.culprits})


@dataclass(frozen=True, slots=True)
class Desyncs:
    """The desync of each group that has one, the one that began first in front."""

    found: tuple[Desync, ...]
    """At most one per process group, the one that began first in front."""
    shapes: tuple[Desync, ...] = ()
    """Calls that do not end, to which ranks gave different shapes."""
    follow: frozenset[tuple[str, int]] = frozenset()
    """The calls (group, number) at which ranks diverged that had diverged in another group before."""

    @property
    def calls(self) -> Iterator[tuple[str, int]]:
        """The calls (group, number) from which on ranks of a group called different things, or which follow from such a one."""
        yield from ((desync.group.name, desync.seq) for desync in self.found)
        yield from self.follow

    def of(self, cause: Cause) -> tuple[Desync, ...]:
        """Those with this cause."""
        return tuple(desync for desync in self.found if desync.cause is cause)


def skips(desync: Desync, code: SourceCode | None) -> list[str]:
    """The `continue`s, as `train.py:58`, of the loops that the majority called from and the minority did not."""
    return sorted(
        {f"{PurePath(frame.file).name}:{line}" for frame, loop in loops_left(desync, code) for line in loop.skips}
    )


def turns_without_a_call(desync: Desync, code: SourceCode | None) -> list[str]:
    """The `continue`s, as `train.py:58`, of the loops that the ranks made their last calls in."""
    loops = _loops(desync, sorted(desync.issued), code)
    return sorted({f"{PurePath(frame.file).name}:{line}" for frame, loop in loops for line in loop.skips})


def passed_over(desync: Desync, code: SourceCode | None) -> list[tuple[Frame, Jump]]:
    """The `continue`s between the lines of one loop at which the ranks of the minority and those of the majority stand.

    Where both stand at one line, the minority is there in a later turn: those above it under a test of the rank. Each comes with
    a frame of its function.
    """
    if desync.cause is not Cause.MISSING or desync.ended:
        return []
    stands = {(frame.file, loop): frame.line for frame, loop in _loops(desync, desync.minority, code)}
    condition = desync.comparison.condition
    return [
        (frame, jump)
        for frame, loop in _loops(desync, desync.majority, code)
        for jump in loop.jumps
        if jump.word == "continue"
        and jump.line < frame.line
        and (condition is None or condition.line == jump.line)
        and (
            stands.get((frame.file, loop), jump.line) < jump.line
            or (condition is not None and condition.branch == 1)
            or (stands.get((frame.file, loop)) == frame.line and is_rank_test(jump.test, by_rank=jump.by_rank))
        )
    ]


def continues(desync: Desync, ranks: Sequence[int], code: SourceCode | None) -> list[tuple[Frame, Jump]]:
    """The `continue`s of the loops that these ranks made their calls in, each with a frame of its function."""
    return [
        (frame, jump) for frame, loop in _loops(desync, ranks, code) for jump in loop.jumps if jump.word == "continue"
    ]


def turns_cut_short(
    desync: Desync, ahead: Sequence[int], behind: Sequence[int], code: SourceCode | None
) -> list[tuple[Frame, Jump]]:
    """The statements by which the ranks `ahead` may have passed over the line at which those `behind` stand, to a later turn.

    Both are in the loop. Those under a test of the rank, if any; each comes with a frame of its function.
    """
    around = {(frame.file, loop) for frame, loop in _loops(desync, ahead, code)}
    found = [
        (frame, jump)
        for frame, loop in _loops(desync, behind, code)
        if (frame.file, loop) in around
        for jump in loop.jumps
        if jump.word in ("break", "continue") and jump.line < frame.line
    ]
    return [one for one in found if is_rank_test(one[1].test, by_rank=one[1].by_rank)] or found


def loops_left(desync: Desync, code: SourceCode | None) -> list[tuple[Frame, Loop]]:
    """The loops that the majority called from and the minority did not, outermost first, each with a line in it."""
    here = {(frame.file, loop) for frame, loop in _loops(desync, desync.minority, code)}
    return [(frame, loop) for frame, loop in _loops(desync, desync.majority, code) if (frame.file, loop) not in here]


def _loops(desync: Desync, ranks: Sequence[int], code: SourceCode | None) -> list[tuple[Frame, Loop]]:
    """The loops that these ranks made their calls in, each once, with a line in it."""
    frames = dict.fromkeys(frame for rank in ranks if rank in desync.issued for frame in desync.issued[rank].stack)
    found: dict[tuple[str, Loop], Frame] = {}
    for frame in frames:
        place = place_of(code, frame)
        for loop in place.loops if place is not None else ():
            found.setdefault((frame.file, loop), frame)
    return [(frame, loop) for (_, loop), frame in found.items()]


def is_in(loop: Loop | None, program: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether one of these frames is in `loop`."""
    places = [code.at(frame.file, frame.line) for frame in program] if code is not None and loop is not None else []
    return any(place is not None and loop in place.loops for place in places)


def cause_of(comparison: Comparison, minority_op: str, majority_op: str) -> Cause:
    """The cause, by where the minority stands. A majority that has left the loop means one call too many of the minority."""
    match comparison.relation:
        case Relation.PAST if comparison.loop is not None or minority_op in LEAVING:
            return Cause.LEFT
        case Relation.WITHIN if comparison.loop is not None or majority_op in LEAVING:
            return Cause.EXTRA
        case Relation.CONDITIONAL | Relation.BEFORE:
            return Cause.EXTRA
        case Relation.UNCONDITIONAL | Relation.AHEAD:
            return Cause.MISSING
        case _:
            return Cause.MISMATCH
