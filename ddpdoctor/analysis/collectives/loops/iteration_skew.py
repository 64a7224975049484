"""Where the ranks' iterations diverged: another number of collectives before one, a forward from another line or turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_

from ddpdoctor.analysis.collectives.loops.accumulation_lengths import accumulation_lengths
from ddpdoctor.analysis.collectives.loops.loop_passes import SkippedBatch, passed_over
from ddpdoctor.analysis.collectives.places.conditions_above import rank_test
from ddpdoctor.analysis.collectives.places.forward_loops import exits_behind, loop_of
from ddpdoctor.analysis.collectives.places.rank_tests import is_rank_test, lets_pass_only
from ddpdoctor.analysis.collectives.recorders.agents_transfers import RECEIVES, SENDS
from ddpdoctor.analysis.collectives.recorders.multithreaded import called_in_turns, has_both
from ddpdoctor.analysis.collectives.recorders.timeline import NAMES_OF_DEFAULT_GROUP
from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, StepCount
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, FlightRecord
from ddpdoctor.evidence.source import Condition, Jump, SourceCode
from ddpdoctor.grouping import grouped

COMPARED = 3  # other iterations, at least, that tell how many collectives are usual
MOST_EXITS = 3  # that can be shown: of more, none is likely to be the one
JOIN = "/torch/distributed/algorithms/join.py"  # on the stack of every call that `Join` makes or answers


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationSkew:
    """The first iteration that ranks began after different numbers of collectives."""

    iteration: int
    """The number of the iteration, the same on all ranks."""
    seq: Mapping[int, int]
    """By rank, how many collectives it had made when the iteration began."""
    equal: int
    """The last number of collectives that all ranks had made alike."""
    before: tuple[int, ...] = ()
    """The ranks that have not begun it: their `seq` is what they had made before it, which is more than others had."""
    own: Mapping[int, CollectiveCall] = field(default_factory=dict)
    """By rank, the last call of the user's code before it that others did not make; empty where such calls are not the whole
    difference."""
    cut_short: tuple[tuple[Frame, Jump], ...] = ()
    """What may have ended a turn of ranks that made fewer behind its forward, each with a frame of its function."""
    short: bool = False
    """Whether those that made fewer had made fewer than is usual in the iteration before, and the others no fewer."""

    @property
    def fewer(self) -> tuple[int, ...]:
        """The ranks that had made the fewest collectives."""
        return tuple(sorted(rank for rank, seq in self.seq.items() if seq == min(self.seq.values())))

    @property
    def sides(self) -> Vote:
        """The ranks by how many collectives they had made; of two equal sides the usual number or a test of the rank may tell."""
        voted = vote(self.seq)
        others = tuple(rank for rank in sorted(self.seq) if rank not in self.fewer)
        if voted.tied and (self.short or any(lets_pass_only(jump, self.fewer, others) for _, jump in self.cut_short)):
            return Vote(sides=(others, self.fewer), tied=False, minority=self.fewer)
        return voted


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherForward:
    """The first forward that ranks called from different lines: legal where what follows is alike on all of them."""

    number: int
    """The number of the forward, the same on all ranks."""
    places: Mapping[int, Frame]
    """By rank, the line that called it."""
    programs: Mapping[int, tuple[Frame, ...]]
    """The lines that led to it, outermost first."""

    @property
    def sides(self) -> Vote:
        """The ranks by the line."""
        return vote(self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedForward:
    """The first forward that some ranks called below a test of the rank and the others elsewhere.

    It is legal where what follows is the same on all of them.
    """

    number: int
    """The number of the forward, the same on all ranks."""
    ranks: tuple[int, ...]
    """The ranks below the test."""
    others: tuple[int, ...]
    """The other ranks."""
    condition: Condition
    """The test of the rank above the line of `ranks`."""
    frame: Frame
    """The line below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenAccumulation:
    """The first forward whose gradients some ranks reduced and others did not, as under `no_sync`."""

    number: int
    """The number of the forward, the same on all ranks."""
    reduced: Mapping[int, bool]
    """By rank, whether it did."""
    places: Mapping[int, Frame]
    """By rank, where it called the forward."""
    stepped: tuple[int, ...] = ()
    """The ranks that did not reduce, and made an optimizer step before their next forward: with gradients of their own alone."""

    @property
    def sides(self) -> Vote:
        """The ranks by whether they reduced; of two equal sides, those are at fault that stepped without."""
        voted = vote(self.reduced)
        without = tuple(rank for rank, reduced in sorted(self.reduced.items()) if not reduced)
        if not voted.tied or self.stepped != without:
            return voted
        return Vote(
            sides=(tuple(rank for rank in sorted(self.reduced) if rank not in without), without),
            tied=False,
            minority=without,
        )


@dataclass(frozen=True, slots=True)
class Iterations:
    """What the iterations of the ranks show; None where there was no such thing."""

    out_of_step: IterationSkew | None
    """The first iteration out of step."""
    left_out: IterationSkew | None = None
    """An iteration that some ranks began although others had made one more collective before it. It proves nothing by itself:
    these may have left their loop, and have made the call behind it."""
    other_forward: OtherForward | None = None
    """The first forward that ranks called from different lines."""
    forked: ForkedForward | None = None
    """The first forward that some ranks called below a test of the rank."""
    passed_over: SkippedBatch | None = None
    """The first batch that a rank skipped. It proves nothing by itself: each rank may look for its next good batch alone."""
    accumulation: UnevenAccumulation | None = None
    """The first forward whose gradients not all ranks reduced. Alone it is no fault, where models of different process groups
    are trained."""
    began: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """By iteration and rank, after how many collectives it began."""
    lengths: Mapping[int, int] = field(default_factory=dict)
    """By rank, over how many forwards it accumulates, where these differ and pair the same steps: iterations are then forwards,
    and cannot be compared."""

    def at(self, rank: int, seq: int) -> int | None:
        """The iteration in which this rank made call `seq` of the default group, or None where that is not known."""
        return max((number for number, after in self.began.items() if after.get(rank, seq) < seq), default=None)

    def cut_short(self, ahead: Sequence[int], behind: Sequence[int], iteration: int, seq: int) -> bool:
        """Whether `ahead` ended this iteration with fewer collectives than usual, and call `seq` of the others is a usual one."""
        most_frequent = _most_frequent_number(self.began, iteration)
        first, following = self.began.get(iteration, {}), self.began.get(iteration + 1, {})
        if most_frequent is None or not all(rank in first for rank in (*ahead, *behind)):
            return False
        fewer = all(rank in following and following[rank] - first[rank] < most_frequent for rank in ahead)
        return fewer and all(seq - first[rank] <= most_frequent for rank in behind)


def derive(
    calls: PerRank[CollectiveCalls],
    records: PerRank[FlightRecord] | None,
    code: SourceCode | None = None,
    steps: PerRank[StepCount] | None = None,
) -> Iterations:
    """Where the ranks' iterations diverged, by the marks that their agents made.

    Under `Join` they may: a rank that has no more data answers the calls of the others without iterations of its own. Where
    another thread calls between the iterations, they begin after as many calls as chance has it.
    """
    if any(_counts_tell_nothing(entry.value) for entry in records or ()):
        return Iterations(None)
    began: dict[int, dict[int, int]] = {}
    for entry in calls:
        for mark in entry.value.steps:
            began.setdefault(mark.iteration, {})[entry.rank] = mark.seq
    lengths = accumulation_lengths(calls)
    if len({*lengths.values()}) > 1:
        return Iterations(None, accumulation=_uneven_accumulation(calls, steps), lengths=lengths)
    issued = {entry.rank: _made(entry.value) for entry in calls}
    skew, left_out = _out_of_step(began, issued), _left_out(began, issued)
    if skew is not None:
        own = _of_some(skew, calls)
        skew = replace(
            skew, own=own, short=_is_short(skew, began), cut_short=() if own else _cut_short(skew.fewer, calls, code)
        )
    return Iterations(
        out_of_step=skew,
        left_out=left_out and replace(left_out, own=_of_some(left_out, calls)),
        other_forward=_other_forward(calls),
        forked=_forked(calls, code),
        passed_over=passed_over(calls),
        accumulation=_uneven_accumulation(calls, steps),
        began=began,
    )


def _most_frequent_number(began: Mapping[int, Mapping[int, int]], but: int) -> int | None:
    """How many collectives most iterations but this one made, over all ranks; None where there is no such number."""
    counts = Counter(
        later[rank] - after[rank]
        for number, after in began.items()
        if number != but and (later := began.get(number + 1)) is not None
        for rank in after
        if rank in later
    )
    ((most_frequent, times),) = counts.most_common(1) or [(0, 0)]
    return most_frequent if times >= COMPARED and times > counts.total() / 2 else None


def _is_short(skew: IterationSkew, began: Mapping[int, Mapping[int, int]]) -> bool:
    """Whether in the iteration before the skew only those with fewer collectives made fewer than most iterations did."""
    first, usual = began.get(skew.iteration - 1, {}), _most_frequent_number(began, skew.iteration - 1)
    if usual is None or skew.before or not {*skew.seq} <= {*first}:
        return False
    return all((seq - first[rank] < usual) is (rank in skew.fewer) for rank, seq in skew.seq.items())


def _counts_tell_nothing(record: FlightRecord) -> bool:
    joins = any(frame.file.endswith(JOIN) for frame in record.frames)
    return joins or any(
        (group.name in NAMES_OF_DEFAULT_GROUP or group.description == DEFAULT_GROUP)
        and (has_both(record, group.name) or called_in_turns(record, group.name))
        for group in record.groups
    )


def _out_of_step(began: Mapping[int, Mapping[int, int]], issued: Mapping[int, int]) -> IterationSkew | None:
    """A rank that has not begun the iteration, and is in the call that some made before it, is on their side."""
    equal = 0
    for iteration, seq in sorted(began.items()):
        if len(set(seq.values())) > 1:
            most = max(seq.values())
            before = {
                rank: issued[rank] for rank in began.get(iteration - 1, {}) if rank not in seq and issued[rank] == most
            }
            return IterationSkew(iteration=iteration, seq={**seq, **before}, equal=equal, before=tuple(sorted(before)))
        equal = max(seq.values())
    return None


def _left_out(began: Mapping[int, Mapping[int, int]], issued: Mapping[int, int]) -> IterationSkew | None:
    for iteration, seq in sorted(began.items()):
        most = max(seq.values())
        before = {
            rank: issued[rank] for rank in began.get(iteration - 1, {}) if rank not in seq and issued[rank] > most
        }
        if before:
            return IterationSkew(iteration=iteration, seq={**seq, **before}, equal=most, before=tuple(sorted(before)))
    return None


def _of_some(skew: IterationSkew, calls: PerRank[CollectiveCalls]) -> dict[int, CollectiveCall]:
    """The last call of each rank that is not on all of them, in the time in which they made unequally many."""
    between = {
        entry.rank: [call for seq, call in _own(entry.value) if skew.equal < seq <= skew.seq[entry.rank]]
        for entry in calls
        if entry.rank in skew.seq
    }
    counts = {rank: Counter((call.op, call.place) for call in issued) for rank, issued in between.items()}
    common = reduce(and_, counts.values())
    more = {rank: count - common for rank, count in counts.items()}
    if all(more.values()) or len({skew.seq[rank] - of_some.total() for rank, of_some in more.items()}) > 1:
        return {}
    return {
        rank: next(call for call in reversed(between[rank]) if (call.op, call.place) in of_some)
        for rank, of_some in more.items()
        if of_some
    }


def _cut_short(
    ranks: Sequence[int], calls: PerRank[CollectiveCalls], code: SourceCode | None
) -> tuple[tuple[Frame, Jump], ...]:
    """What may have ended a turn behind the forwards of these ranks: a `continue` of their loop, and see `exits_behind`.

    What stands under a test of the rank, or all where they are few.
    """
    found: dict[tuple[str, int], tuple[Frame, Jump]] = {}
    for entry in calls:
        last = entry.value.forwards[-1] if entry.value.forwards else None
        frame, loop = loop_of(last, code)
        if entry.rank in ranks and frame is not None and loop is not None:
            skips = [(frame, jump) for jump in loop.jumps if jump.word == "continue" and jump.line > frame.line]
            found.update({(at.file, jump.line): (at, jump) for at, jump in (*skips, *exits_behind(last, frame, code))})
    by_rank = [one for one in found.values() if is_rank_test(one[1].test, by_rank=one[1].by_rank)]
    return tuple(by_rank or (found.values() if len(found) <= MOST_EXITS else ()))


def _forwards_by_number(calls: PerRank[CollectiveCalls]) -> Iterator[tuple[int, dict[int, Forward]]]:
    """The number of each forward that all ranks recorded, the lowest first, with the forward of each rank.

    None where ranks called several forwards and had no line of them in common: they are stages of a pipeline.
    """
    if _are_of_stages(calls):
        return
    made: dict[int, dict[int, Forward]] = {}
    for entry in calls:
        for forward in entry.value.forwards:
            made.setdefault(forward.number, {})[entry.rank] = forward
    yield from ((number, of_ranks) for number, of_ranks in sorted(made.items()) if len(of_ranks) == len(calls.ranks))


def _are_of_stages(calls: PerRank[CollectiveCalls]) -> bool:
    """Whether some ranks share no line of their forwards with others, and each of both sides went on behind its first one."""
    forwards = [entry.value.forwards for entry in calls if entry.value.forwards]
    first = {one.place for one in forwards[0]} if forwards else set()
    sides = grouped((any(one.place in first for one in made), len(made)) for made in forwards)
    shared = {one.place for made in forwards if not any(one.place in first for one in made) for one in made}
    return len(sides) == 2 and min(max(made) for made in sides.values()) > 1 and first.isdisjoint(shared)


def _other_forward(calls: PerRank[CollectiveCalls]) -> OtherForward | None:
    for number, made in _forwards_by_number(calls):
        places = {rank: forward.place for rank, forward in made.items()}
        if len(set(places.values())) > 1:
            programs = {rank: forward.stack[::-1] for rank, forward in made.items()}
            return OtherForward(number=number, places=places, programs=programs)
    return None


def _uneven_accumulation(
    calls: PerRank[CollectiveCalls], steps: PerRank[StepCount] | None
) -> UnevenAccumulation | None:
    made = {entry.rank: entry.value.steps for entry in steps or ()}
    by_rank = {entry.rank: {forward.number: forward for forward in entry.value.forwards} for entry in calls}
    common = sorted(set.intersection(*map(set, by_rank.values()))) if by_rank else []
    for number in common:
        reduced = {rank: forwards[number].reduces for rank, forwards in sorted(by_rank.items())}
        if None in reduced.values():
            return None
        if len({*reduced.values()}) > 1:
            stepped = tuple(
                rank
                for rank, forwards in sorted(by_rank.items())
                if not reduced[rank]
                and _steps_after(forwards, number, made.get(rank)) not in (None, forwards[number].steps)
            )
            return UnevenAccumulation(
                number=number,
                reduced={rank: bool(one) for rank, one in reduced.items()},
                places={rank: forwards[number].place for rank, forwards in by_rank.items()},
                stepped=stepped,
            )
    return None


def _steps_after(forwards: Mapping[int, Forward], number: int, at_the_end: int | None) -> int | None:
    """How many steps the rank had made when it began its next forward, or in all where there was none."""
    following = forwards.get(number + 1)
    return following.steps if following is not None else at_the_end


def _forked(calls: PerRank[CollectiveCalls], code: SourceCode | None) -> ForkedForward | None:
    """Of the first forward with different lines above it on the ranks: whether some stand below a test of the rank there."""
    for number, made in _forwards_by_number(calls):
        each = {rank: forward.stack[::-1] for rank, forward in made.items()}
        if len({*each.values()}) == 1:
            continue
        tests = {rank: rank_test(stack, code) for rank, stack in each.items()}
        below = {rank: test for rank, test in tests.items() if test is not None}
        if below and len(below) < len(each) and len({*below.values()}) == 1:
            condition, frame = next(iter(below.values()))
            others = tuple(rank for rank in sorted(each) if rank not in below)
            return ForkedForward(
                number=number, ranks=tuple(sorted(below)), others=others, condition=condition, frame=frame
            )
        return None
    return None


def _made(calls: CollectiveCalls) -> int:
    """The number of the last collective of the default group that the user's own code called."""
    return max((seq for seq, _ in _own(calls)), default=0)


def _own(calls: CollectiveCalls) -> Iterator[tuple[int, CollectiveCall]]:
    """The collectives of the default group that the user's own code called, by their numbers; sends have others."""
    for call in calls.calls:
        if call.seq is not None and call.group in NAMES_OF_DEFAULT_GROUP and call.op not in (*SENDS, *RECEIVES):
            yield call.seq, call
