"""A rank's calls over all process groups beside those of ranks with the same part in the job: who left one out, or made one more.

In a group of two ranks no majority decides. Ranks with the same part in other groups of the same description do: at the same
point of their program they have made as many calls of each kind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import islice
from typing import TypeVar

from ddpdoctor.analysis.collectives.beside_other_parts import surplus_in_step
from ddpdoctor.analysis.collectives.call_patterns import agree, always_next, first_difference
from ddpdoctor.analysis.collectives.call_sequences import program_stack
from ddpdoctor.analysis.collectives.group_labels import NAMED, labels_of
from ddpdoctor.analysis.collectives.rank_program import (
    CallPlaces,
    Kind,
    Part,
    RankProgram,
    ahead_of,
    call_places,
    latest_first,
)
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.collectives.transfer_places import TransferPlaces
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State

V = TypeVar("V", bound=Hashable)

MOST_COMPARED = 64  # ranks of the same part: a majority of so many is one of thousands too
ASKED_OF_A_SIDE = 4
MOST_BEFORE = 8  # calls before one that ranks with other parts made as well
FARTHEST = 64  # calls by which a program may differ and still be the same program


@dataclass(frozen=True, slots=True)
class Deviation:
    """Ranks whose program differs from that of ranks with the same part in the job."""

    ranks: tuple[int, ...]
    """The ranks that deviate, sorted."""
    extra: int
    """How many calls more than the others each made, below 0 how many it left out; 0 where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDeviation:
    """Where a rank's program and that of a rank with the same part first diverged for good."""

    rank: int
    """The rank that is compared."""
    like: int
    """The rank with the same part."""
    left_out: tuple[IssuedCall, ...] = ()
    """Calls of `like` that the rank did not make at this point."""
    extra: tuple[IssuedCall, ...] = ()
    """Calls of the rank that `like` did not make at this point."""
    breaks_pattern: bool = False
    """Whether what it left out had always followed before, on both: then it is this rank that deviates, and not `like`."""


@dataclass
class ProgramComparison:
    """Compares the programs of ranks; each is read once, when it is asked for, and so is what all of them need."""

    timeline: Timeline
    """The records of all ranks, with the groups and their members."""
    _programs: dict[int, RankProgram] = field(default_factory=dict)
    _calls: dict[tuple[int, int, int, tuple[Kind, ...]], CallPlaces] = field(default_factory=dict)
    _labels_of: dict[int, Mapping[str, str]] = field(default_factory=dict)
    _numbered: dict[int, list[int]] = field(default_factory=dict)
    _tokens_of: dict[Hashable, int] = field(default_factory=dict)
    _parts: dict[Part, list[int]] = field(default_factory=dict)

    @cached_property
    def _ranks(self) -> list[int]:
        return sorted(self.records)

    @cached_property
    def _memberships(self) -> Mapping[int, list[GroupTimeline]]:
        """The groups of each rank, of those whose members are known."""
        found: dict[int, list[GroupTimeline]] = defaultdict(list)
        for group in self.timeline.groups:
            for rank in group.members if group.group_sequences.members_known else ():
                found[rank].append(group)
        return found

    @cached_property
    def _pipelines(self) -> set[str]:
        """The labels of groups in which ranks send and receive: the place among these is a rank's part."""
        return self._labels_with(point_to_point=True) | {
            self._labels(rank)[group.name]
            for rank, record in self.records.items()
            for group in record.groups
            if _counts_both(group)
        }

    @cached_property
    def places(self) -> TransferPlaces:
        """Where each rank is among those that it sends to and receives from."""
        return TransferPlaces(self.records, self._groups, self._labels)

    @cached_property
    def _with_collectives(self) -> set[str]:
        return self._labels_with(point_to_point=False)

    def _labels_with(self, *, point_to_point: bool) -> set[str]:
        return {
            self._labels(rank)[record.groups[call.group].name]
            for rank, record in self.records.items()
            for call in record.calls
            if call.point_to_point == point_to_point
        }

    def with_transfers(self, group: GroupTimeline) -> bool:
        """Whether ranks send and receive in this group, or in others with its part in the job."""
        name = group.group_sequences.group.name
        return any(self._labels(rank).get(name) in self._pipelines for rank in group.recorded[:1])

    @property
    def records(self) -> Mapping[int, FlightRecord]:
        """The flight recorder of each rank."""
        return self.timeline.call_index.records

    def surplus(self, rank: int, kind: Kind, *, behind: int = 0) -> int | None:
        """By how many calls of this kind the rank is ahead of ranks with its part, at the last point that they share.

        Below 0 it has left calls out. Only points behind its own call number `behind` of this kind count. None where there
        is no such point, or no majority among the others. Where one other rank at most has its part, all ranks count.
        """
        mine = self._program(rank)
        since = mine.place(kind, behind) if behind else -1
        if since is None:
            return None
        found = self._surplus_at_a_point(rank, kind, since)
        if not found and not behind:
            found = self._surplus_at_the_end(rank, kind) or found
        if found is not None or kind.point_to_point or len(self._with_part(mine.part)) > 2:
            return found
        others = [self._program(other) for other in islice(self._nearest(rank), MOST_COMPARED)]
        return surplus_in_step(mine, others, kind, since)

    def _surplus_at_a_point(self, rank: int, kind: Kind, since: int) -> int | None:
        """The same at the last call of another kind behind the place `since` that ranks with the same part made as well."""
        mine = self._program(rank)
        for other_kind, number, place in latest_first(mine, kind):
            if place <= since:
                break
            made = mine.made_before(kind, place)
            found = self._made_by_others(rank, kind, other_kind, number)
            if made is None or not found:
                continue
            differences = {other: made - theirs for other, theirs in found.items() if abs(made - theirs) <= FARTHEST}
            sides = vote({**differences, rank: 0})  # the rank is one of those that it is compared with
            if len(differences) > 1 and not sides.tied:
                return 0 if sides.majority[0] == rank else differences[sides.majority[0]]
        return None

    def _surplus_at_the_end(self, rank: int, kind: Kind) -> int | None:
        """The same by all that each has called until its dump: of one program, one rank is ahead in every kind or in none."""
        mine = self._program(rank)
        others = [self._program(other) for other in islice(self._nearest(rank), MOST_COMPARED)]
        extra: Counter[int] = Counter()
        for other in others:
            if other.part != mine.part:
                continue
            ahead = ahead_of(mine, other)
            both = min(ahead.values(), default=0) < 0 < max(ahead.values(), default=0)
            # one call more here and one less there may be two calls in another order
            deviates = both and sum(map(abs, ahead.values())) > 2 and max(map(abs, ahead.values())) <= FARTHEST
            extra[ahead.get(kind, 0) if deviates else 0] += 1
        others_alone = max(extra.values(), default=0)
        extra[0] += 1  # the rank is one of those that it is compared with
        found = extra.most_common(2)
        if others_alone < 2 or (len(found) > 1 and found[0][1] == found[1][1]):
            return None
        return found[0][0]

    def as_long_as_its_like(self, rank: int) -> bool:
        """Whether most ranks with its part have made as many calls of every kind as this rank.

        One that has made a call less of one kind and one more of another may have left the first out.
        """
        mine = self._program(rank)
        others = (self._program(other) for other in islice(self._nearest(rank), MOST_COMPARED))
        alike = [not any(ahead_of(mine, other).values()) for other in others if other.part == mine.part]
        return 2 * sum(alike) > len(alike)

    def exchanged(self, rank: int, one: tuple[Kind, int], other: tuple[Kind, int]) -> bool:
        """Whether the rank made these two calls, each a kind and a number, in another order than nearly all of its like."""
        mine = self._in_order(rank, one, other)
        if mine is None:
            return False
        like = islice(self.like(rank), MOST_COMPARED)
        orders = Counter(self._in_order(rank, one, other) for rank in like)
        return orders[not mine] > 1 and orders[not mine] > 2 * orders[mine]

    def _in_order(self, rank: int, one: tuple[Kind, int], other: tuple[Kind, int]) -> bool | None:
        """Whether the rank made the first of these calls before the second; None where its dump does not tell."""
        first, second = (self._program(rank).position(kind, number) for kind, number in (one, other))
        return None if first is None or second is None or first == second else first < second

    def made_before(self, rank: int, kind: Kind, call: tuple[Kind, int]) -> int | None:
        """How many calls of this kind the rank made before this call, a kind and a number; None where its dump does not tell."""
        place = self._program(rank).place(*call)
        return self._program(rank).made_before(kind, place) if place is not None else None

    def like(self, rank: int) -> Iterator[int]:
        """The other ranks with the same part in the job, the nearest first."""
        return self._nearest(rank, self._with_part(self._program(rank).part))

    def at_its_place(self, rank: int, group: str) -> Iterator[int]:
        """The other ranks with this rank's place in groups with the part of this one, the nearest first."""
        here = self.label(rank, group), self._place(rank, group)
        return (other for other in self._nearest(rank) if here in self._places(other))

    def _place(self, rank: int, group: str) -> tuple[int, int | None]:
        """Among how many ranks of a group the rank sends and receives, and where it is among these."""
        return len(self.places.among(rank, group)), self.places.place(rank, group)

    def _places(self, rank: int) -> set[tuple[str | None, tuple[int, int | None]]]:
        return {(label, self._place(rank, group)) for group, label in self._labels(rank).items()}

    def first_deviation(self, rank: int) -> FirstDeviation | None:
        """The calls that the rank first left out, or made besides, compared with the nearest rank with its part.

        None where its calls are those of its like as far as both go, or what followed was another program.
        """
        for like in islice(self.like(rank), ASKED_OF_A_SIDE):
            found = self._compared_with(rank, like)
            if found is not None:
                return found
        return None

    def _compared_with(self, rank: int, like: int) -> FirstDeviation | None:
        (mine, own), (theirs, others) = self._from_a_common_call(rank, like)
        at = first_difference(mine, theirs)
        if at is None:
            return None
        for count in range(1, FARTHEST + 1):
            if agree(mine[at:], theirs[at + count :]):
                breaks_pattern = mine[at] in mine[:at] and always_next(mine[:at]) == theirs[at]
                names = self._own_names(rank, like)
                made = (self._issued_at(like, entry) for entry in others[at : at + count])
                left_out = tuple(replace(one, group=names.get(one.group, one.group)) for one in made)
                return FirstDeviation(rank=rank, like=like, left_out=left_out, breaks_pattern=breaks_pattern)
            if agree(mine[at + count :], theirs[at:]):
                extra = tuple(self._issued_at(rank, entry) for entry in own[at : at + count])
                return FirstDeviation(rank=rank, like=like, extra=extra)
        return None

    def _from_a_common_call(self, rank: int, like: int) -> tuple[tuple[list[int], range], tuple[list[int], range]]:
        """The calls of both as numbers, and their entries, from the first that both records hold; none where there is none."""
        starts = [(0, 0)] if not (self.records[rank].lost or self.records[like].lost) else [*self._meet(rank, like)]
        first, other_first = starts[0] if starts else (len(self.records[rank]), len(self.records[like]))
        found = []
        for one, start in ((rank, first), (like, other_first)):
            calls = self._tokens(one)
            found.append((calls[start:], range(start, len(calls))))
        return found[0], found[1]

    def _meet(self, rank: int, like: int) -> Iterator[tuple[int, int]]:
        """Where in the two records the first call of either is, if both hold it."""
        mine, theirs = self._program(rank), self._program(like)
        for kind, places in mine.places.items():
            if places and places[0] == 0 and (other := theirs.place(kind, mine.numbers[kind][0])) is not None:
                yield 0, other
        for kind, places in theirs.places.items():
            if places and places[0] == 0 and (own := mine.place(kind, theirs.numbers[kind][0])) is not None:
                yield own, 0

    def _tokens(self, rank: int) -> list[int]:
        """The calls of a rank in order, as numbers that mean the same on every rank: kind, operation, line or shapes."""
        if rank not in self._numbered:
            record, labels, lines = self.records[rank], self._labels(rank), self.timeline.call_index.lines
            numbers = []
            for entry, position in enumerate(record.call):
                call = record.calls[position]
                name = record.groups[call.group].name
                stack = program_stack(record, record.stack[entry])
                if not stack and not call.point_to_point:
                    stack = lines.of(rank, name, record.seq[entry], waits=False)
                direction = None if not call.point_to_point else call.op
                what = stack or (call.input_sizes, call.input_dtypes)
                numbers.append(
                    self._tokens_of.setdefault((labels[name], call.op, direction, what), len(self._tokens_of))
                )
            self._numbered[rank] = numbers
        return self._numbered[rank]

    def _issued_at(self, rank: int, entry: int) -> IssuedCall:
        record = self.records[rank]
        call = record.calls[record.call[entry]]
        group = self._spoken(rank, record.groups[call.group].name)
        stack = program_stack(record, record.stack[entry])
        if not stack and not call.point_to_point:
            name = record.groups[call.group].name
            stack = self.timeline.call_index.lines.of(rank, name, record.seq[entry], waits=False)
        return IssuedCall(
            rank=rank,
            entry=entry,
            seq=record.seq[entry],
            calls=(call,),
            group=group,
            program=stack,
            done=record.state[entry] is State.DONE,
            started=record.state[entry] is not State.SCHEDULED,
            created_ns=record.created_ns[entry],
        )

    def _own_names(self, rank: int, like: int) -> Mapping[str, str]:
        """What the rank's groups are called whose counterparts `like` has, by the names of these."""
        own = {label: name for name, label in self._labels(rank).items()}
        return {
            self._spoken(like, name): self._spoken(rank, own[label])
            for name, label in self._labels(like).items()
            if label in own
        }

    def _spoken(self, rank: int, name: str) -> str:
        """A group's name as findings say it."""
        groups = (one for one in self._memberships.get(rank, ()) if one.group_sequences.group.name == name)
        found = next(groups, None)
        return f"group {name}" if found is None else found.name

    def kind(self, rank: int, group: str, *, point_to_point: bool) -> Kind | None:
        """The kind of a rank's calls in the group with this name, None where its dump does not know the group."""
        label = self._labels(rank).get(group)
        return Kind(label, point_to_point) if label is not None else None

    def decide(
        self, group_timeline: GroupTimeline, number: int, called: Mapping[int, V], value_of: Callable[[Call], V]
    ) -> Deviation | None:
        """Which of the ranks that made different calls `called` as collective `number` of this group differ from their like.

        Decided by how many calls each had made at a later point of its program; else by what ranks with their part in other
        groups made as this number.
        """
        group = group_timeline.group_sequences.group.name
        kinds = {
            rank: kind
            for rank in _a_few_of_each(called)
            if (kind := self.kind(rank, group, point_to_point=False)) is not None
        }
        surplus = {
            rank: self._surplus_at_the_end(rank, kind) if extra is None else extra
            for rank, kind in kinds.items()
            for extra in [self.surplus(rank, kind, behind=number)]
        }
        deviating = {called[rank] for rank, extra in surplus.items() if extra}
        conforming = {called[rank] for rank, extra in surplus.items() if extra == 0}
        if deviating and conforming and deviating.isdisjoint(conforming):
            ranks = tuple(sorted(rank for rank in called if called[rank] not in conforming))
            return Deviation(ranks=ranks, extra=next(extra for extra in surplus.values() if extra))
        by_ends = self._by_ends(next(iter(kinds.values())), called) if len({*kinds.values()}) == 1 else None
        if by_ends is not None:
            return by_ends
        found = Counter(called.values())
        for rank, kind in kinds.items():
            found.update(value_of(call) for call in self._calls_of_others(rank, kind, number, called))
            (most, times), *others = found.most_common()
            if most in called.values() and (not others or others[0][1] < times) and times > 1:
                return Deviation(ranks=tuple(sorted(other for other in called if called[other] != most)), extra=0)
        return self._beside_other_parts(kinds, number, called, value_of) or self._by_pattern(called)

    def _beside_other_parts(
        self, kinds: Mapping[int, Kind], number: int, called: Mapping[int, V], value_of: Callable[[Call], V]
    ) -> Deviation | None:
        """The side that differs from all ranks of other groups of this kind, which made the same calls until now.

        Their own parts in the job may differ: a place in a pipeline is one.
        """
        if len({*kinds.values()}) != 1:
            return None
        rank, kind = next(iter(kinds.items()))
        found = Counter(
            value_of(call)
            for other in islice(self._nearest(rank), MOST_COMPARED)
            if other not in called and self._as_before(rank, other, kind, number)
            for call in self._calls_at(other, kind, number)
        )
        if len(found) != 1 or found.total() <= 2 or not {*found} < {*called.values()}:
            return None
        return Deviation(ranks=tuple(sorted(other for other in called if called[other] not in found)), extra=0)

    def _as_before(self, rank: int, other: int, kind: Kind, number: int) -> bool:
        """Whether the last calls of this kind before `number` that both dumps hold are the same, two of them at least."""
        same = [
            (mine.op, mine.input_sizes) == (theirs.op, theirs.input_sizes)
            for before in range(number - 1, max(number - MOST_BEFORE, 0), -1)
            for mine in self._calls_at(rank, kind, before)
            for theirs in self._calls_at(other, kind, before)
        ]
        return len(same) > 1 and all(same)

    def _calls_at(self, rank: int, kind: Kind, number: int) -> Iterator[Call]:
        """The rank's call of this kind with this number, where its dump holds it."""
        place = self._program(rank).place(kind, number)
        if place is not None:
            yield self.records[rank].calls[self.records[rank].call[place]]

    def _by_pattern(self, called: Mapping[int, V]) -> Deviation | None:
        """The side that left out a call which had always followed on both sides before."""
        sides = {side: rank for rank, side in called.items()}
        if len(sides) != 2:
            return None
        one, other = sides.values()
        breaking = {
            called[rank]: len(found.left_out)
            for rank, like in ((one, other), (other, one))
            if (found := self._compared_with(rank, like)) is not None and found.breaks_pattern
        }
        if len(breaking) != 1:
            return None
        ((side, left_out),) = breaking.items()
        return Deviation(ranks=tuple(sorted(rank for rank in called if called[rank] == side)), extra=-left_out)

    def _by_ends(self, kind: Kind, called: Mapping[int, V]) -> Deviation | None:
        """The side that has made more or fewer calls of this kind, and as many of all others, where others are like the rest."""
        ends: dict[V, tuple[set[tuple[tuple[Kind, int], ...]], int]] = {}
        for rank in _a_few_of_each(called):
            mine = self._program(rank)
            others = [
                self._program(other) for other in islice(self._nearest(rank), MOST_COMPARED) if other not in called
            ]
            like = sum(other.part == mine.part and other.ends() == mine.ends() for other in others)
            found, times = ends.get(called[rank], (set(), 0))
            ends[called[rank]] = ({*found, mine.ends()}, max(times, like))
        alone = [value for value, (_, times) in ends.items() if not times]
        backed = [value for value, (_, times) in ends.items() if times > 1]
        if len(ends) != len(alone) + len(backed) or len(alone) != 1 or len(backed) != 1:
            return None
        if len(ends[alone[0]][0]) != 1 or len(ends[backed[0]][0]) != 1:
            return None
        (deviating,), (right,) = ends[alone[0]][0], ends[backed[0]][0]
        if {one for one, _ in {*deviating} ^ {*right}} != {kind}:
            return None
        ranks = tuple(sorted(rank for rank in called if called[rank] == alone[0]))
        return Deviation(ranks=ranks, extra=dict(deviating)[kind] - dict(right)[kind])

    def _calls_of_others(self, rank: int, kind: Kind, number: int, besides: Collection[int]) -> Iterator[Call]:
        part = self._program(rank).part
        for other in islice(self._nearest(rank), MOST_COMPARED):
            if other not in besides and self._program(other).part == part:
                yield from self._calls_at(other, kind, number)

    def _made_by_others(self, rank: int, kind: Kind, other_kind: Kind, number: int) -> dict[int, int]:
        """The number of each other rank's last call of `kind` before its call `number` of `other_kind`."""
        part = self._program(rank).part
        found = {}
        for other in self._nearest(rank, self._with_part(part)):
            program = self._program(other)
            place = program.place(other_kind, number)
            made = program.made_before(kind, place) if place is not None else None
            if made is not None:
                found[other] = made
                if len(found) == MOST_COMPARED:
                    break
        return found

    def _nearest(self, rank: int, among: Sequence[int] | None = None) -> Iterator[int]:
        """The other ranks, or those of `among`, the nearest first; of two at one distance the lower.

        Who takes few does not pay for all.
        """
        ranks = self._ranks if among is None else among
        below = reversed(range(bisect_left(ranks, rank)))
        above = range(bisect_right(ranks, rank), len(ranks))
        near = ((ranks[at] for at in side) for side in (below, above))
        return merge(*near, key=lambda other: abs(other - rank))

    def _with_part(self, part: Part) -> Sequence[int]:
        """The ranks with this part in the job, sorted."""
        if not self._parts:
            for rank in self._ranks:
                self._parts.setdefault(self._program(rank).part, []).append(rank)
        return self._parts[part]

    def _program(self, rank: int) -> RankProgram:
        if rank not in self._programs:
            record = self.records[rank]
            self._programs[rank] = self._read(rank, record)
        return self._programs[rank]

    def _read(self, rank: int, record: FlightRecord) -> RankProgram:
        part = set()
        last = {}
        calls, labels = self._calls_in(rank, record), self._labels(rank)
        for name, group in self._groups(rank).items():
            label, members = labels[name], group.ranks or ()
            place_in_group = self.places.place(rank, name) if label in self._pipelines else None
            part.add(("" if label.startswith(NAMED) else label, len(members), place_in_group))
        for group in record.groups:
            kind = self._counted(labels[group.name], group.last_enqueued, calls)
            if group.last_enqueued is not None and kind is not None:
                last[kind] = group.last_enqueued
        return RankProgram(
            places=calls.places,
            numbers=calls.numbers,
            last=last,
            end=calls.end,
            part=frozenset(part),
            whole=not record.lost and not record.statuses,
        )

    def _counted(self, label: str, last_enqueued: int | None, calls: CallPlaces) -> Kind | None:
        """What the table of groups counts: the calls of the kind of the last one. None where no entry tells the kind."""
        both = [Kind(label, point_to_point=between) for between in (False, True)]
        if label not in self._pipelines:
            return both[0]
        if label not in self._with_collectives:
            return both[1]
        ends = [kind for kind in both if calls.numbers.get(kind, [None])[-1] == last_enqueued]
        return ends[0] if len(ends) == 1 else None

    def _groups(self, rank: int) -> Mapping[str, ProcessGroup]:
        """The groups of a rank by name, with their members as far as anything tells them.

        A recorder may know a group by its calls alone, and does not show one that the rank is in and has not come to.
        """
        groups = {group.name: group for group in self.records[rank].groups}
        for one in self._memberships.get(rank, ()):
            group = one.group_sequences.group
            groups[group.name] = replace(groups.get(group.name, group), ranks=one.members)
        return groups

    def label(self, rank: int, group: str) -> str | None:
        """What ranks with the same part in the job call the rank's group of this name; None where the rank is not in it."""
        return self._labels(rank).get(group)

    def _labels(self, rank: int) -> Mapping[str, str]:
        """What each group of a rank is called on all ranks with the same part, by name."""
        if rank not in self._labels_of:
            self._labels_of[rank] = labels_of(self._groups(rank).values())
        return self._labels_of[rank]

    def _calls_in(self, rank: int, record: FlightRecord) -> CallPlaces:
        """Ranks that made the same calls share the columns of their records, and the answer."""
        labels = self._labels(rank)
        kinds = tuple(Kind(labels[record.groups[call.group].name], call.point_to_point) for call in record.calls)
        key = (id(record.call), id(record.seq), id(record.state), kinds)
        if key not in self._calls:
            self._calls[key] = call_places(record, kinds)
        return self._calls[key]


def _counts_both(group: ProcessGroup) -> bool:
    """Whether the group's status has the number of a collective beside that of a send: it completed more than it enqueued."""
    return group.last_enqueued is not None and (group.last_completed or 0) > group.last_enqueued


def derive(timeline: Timeline) -> ProgramComparison:
    """The comparison of the programs of all ranks with a record, one for everything that asks."""
    return ProgramComparison(timeline)


def _a_few_of_each(called: Mapping[int, V]) -> list[int]:
    """The first ranks of each side: what holds for them holds for the others."""
    sides: dict[V, list[int]] = defaultdict(list)
    for rank in sorted(called):
        sides[called[rank]].append(rank)
    return [rank for ranks in sides.values() for rank in ranks[:ASKED_OF_A_SIDE]]
