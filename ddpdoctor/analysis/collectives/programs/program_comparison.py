"""A rank's calls over all process groups beside those of ranks with the same part in the job: who left one out, or made one more.

In a group of two ranks no majority decides. Ranks with the same part in other groups of the same description do: at the same
point of their program they have made as many calls of each kind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import islice

from ddpdoctor.analysis.collectives.programs.beside_other_parts import surplus_in_step
from ddpdoctor.analysis.collectives.programs.chance_order import meet_by_chance
from ddpdoctor.analysis.collectives.programs.group_labels import NAMED, labels_of
from ddpdoctor.analysis.collectives.programs.rank_program import (
    FARTHEST,
    CallKind,
    CallPlaces,
    Part,
    RankProgram,
    ahead_of,
    ahead_of_most,
    call_places,
    latest_first,
)
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline
from ddpdoctor.analysis.collectives.transfers.transfer_places import TransferPlaces
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup

MOST_COMPARED = 64  # ranks of the same part: a majority of so many is one of thousands too
ASKED_OF_A_SIDE = 4


@dataclass
class ProgramComparison:
    """Compares the programs of ranks; each is read once, when it is asked for, and so is what all of them need."""

    timeline: Timeline
    """The records of all ranks, with the groups and their members."""
    _programs: dict[int, RankProgram] = field(default_factory=dict)
    _calls: dict[tuple[int, int, int, tuple[CallKind, ...]], CallPlaces] = field(default_factory=dict)
    _labels_of: dict[int, Mapping[str, str]] = field(default_factory=dict)
    _groups_of: dict[int, Mapping[str, ProcessGroup]] = field(default_factory=dict)
    _parts: dict[Part, list[int]] = field(default_factory=dict)
    _by_chance: dict[tuple[Part, CallKind, CallKind], bool] = field(default_factory=dict)

    @cached_property
    def _ranks(self) -> list[int]:
        return sorted(self.records)

    @cached_property
    def memberships(self) -> Mapping[int, list[GroupTimeline]]:
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
            self.labels(rank)[group.name]
            for rank, record in self.records.items()
            for group in record.groups
            if _counts_both(group)
        }

    @cached_property
    def places(self) -> TransferPlaces:
        """Where each rank is among those that it sends to and receives from."""
        return TransferPlaces(self.records, self.groups, self.labels)

    @cached_property
    def _with_collectives(self) -> set[str]:
        return self._labels_with(point_to_point=False)

    def _labels_with(self, *, point_to_point: bool) -> set[str]:
        return {
            self.labels(rank)[record.groups[call.group].name]
            for rank, record in self.records.items()
            for call in record.calls
            if call.point_to_point == point_to_point
        }

    def with_transfers(self, group: GroupTimeline) -> bool:
        """Whether ranks send and receive in this group, or in others with its part in the job."""
        name = group.group_sequences.group.name
        return any(self.labels(rank).get(name) in self._pipelines for rank in group.recorded[:1])

    @property
    def records(self) -> Mapping[int, FlightRecord]:
        """The flight recorder of each rank."""
        return self.timeline.call_index.records

    def surplus(self, rank: int, kind: CallKind, *, behind: int = 0) -> int | None:
        """By how many calls of this kind the rank is ahead of ranks with its part, at the last point that they share.

        Below 0 it has left calls out. Only points behind its own call number `behind` of this kind count. None where there
        is no such point, or no majority among the others. Where one other rank at most has its part, all ranks count.
        """
        mine = self.program(rank)
        since = mine.place(kind, behind) if behind else -1
        if since is None:
            return None
        found = self._surplus_at_a_point(rank, kind, since)
        if not found and not behind:
            found = self.surplus_at_the_end(rank, kind) or found
        if found is not None or kind.point_to_point or len(self._with_part(mine.part)) > 2:
            return found
        others = [self.program(other) for other in islice(self.nearest(rank), MOST_COMPARED)]
        return surplus_in_step(mine, others, kind, since)

    def _surplus_at_a_point(self, rank: int, kind: CallKind, since: int) -> int | None:
        """The same at the last call of another kind behind the place `since` that ranks with the same part made as well."""
        mine = self.program(rank)
        for other_kind, number, place in latest_first(mine, kind):
            if place <= since:
                break
            if not self.follow_each_other(rank, kind, other_kind):
                continue
            made = mine.made_before(kind, place)
            found = self.made_by_others(rank, kind, other_kind, number)
            if made is None or not found:
                continue
            extra = ahead_of_most(rank, {other: made - theirs for other, theirs in found.items()})
            if extra is not None:
                return extra
        return None

    def surplus_at_the_end(self, rank: int, kind: CallKind) -> int | None:
        """The same by all that each has called until its dump: of one program, one rank is ahead in every kind or in none."""
        mine = self.program(rank)
        others = [self.program(other) for other in islice(self.nearest(rank), MOST_COMPARED)]
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
        mine = self.program(rank)
        others = (self.program(other) for other in islice(self.nearest(rank), MOST_COMPARED))
        alike = [not any(ahead_of(mine, other).values()) for other in others if other.part == mine.part]
        return 2 * sum(alike) > len(alike)

    def exchanged(self, rank: int, one: tuple[CallKind, int], other: tuple[CallKind, int]) -> bool:
        """Whether the rank made these two calls, each a kind and a number, in another order than nearly all of its like."""
        mine = self._in_order(rank, one, other)
        if mine is None:
            return False
        like = (
            near for near in islice(self.like(rank), MOST_COMPARED) if self._count_alike(rank, near, one[0], other[0])
        )
        orders = Counter(self._in_order(near, one, other) for near in like)
        return orders[not mine] > 1 and orders[not mine] > 2 * orders[mine]

    def _count_alike(self, rank: int, other: int, *kinds: CallKind) -> bool:
        """Whether these two have made about as many calls of these kinds: groups made at different times count apart."""
        mine, theirs = self.program(rank), self.program(other)
        return all(abs(mine.called(kind) - theirs.called(kind)) <= FARTHEST for kind in kinds)

    def _in_order(self, rank: int, one: tuple[CallKind, int], other: tuple[CallKind, int]) -> bool | None:
        """Whether the rank made the first of these calls before the second; None where its dump does not tell."""
        mine = self.program(rank)
        if not self.follow_each_other(rank, one[0], other[0]):
            return None
        first, second = (mine.position(kind, number) for kind, number in (one, other))
        return None if first is None or second is None or first == second else first < second

    def made_before(self, rank: int, kind: CallKind, call: tuple[CallKind, int]) -> int | None:
        """How many calls of this kind the rank made before this call, a kind and a number; None where its dump does not tell."""
        mine = self.program(rank)
        place = mine.place(*call) if self.follow_each_other(rank, kind, call[0]) else None
        return mine.made_before(kind, place) if place is not None else None

    def follow_each_other(self, rank: int, kind: CallKind, other: CallKind) -> bool:
        """Whether ranks with this part make calls of these kinds in a fixed order, as one thread does."""
        mine = self.program(rank)
        if not mine.in_one_thread(kind, other):
            return False
        key = mine.part, kind, other
        if key not in self._by_chance:
            compared = [mine, *map(self.program, islice(self.like(rank), ASKED_OF_A_SIDE))]
            self._by_chance[key] = meet_by_chance(compared, kind, other)
        return not self._by_chance[key]

    def like(self, rank: int) -> Iterator[int]:
        """The other ranks with the same part in the job, the nearest first."""
        return self.nearest(rank, self._with_part(self.program(rank).part))

    def at_its_place(self, rank: int, group: str) -> Iterator[int]:
        """The other ranks with this rank's place in groups with the part of this one, the nearest first."""
        here = self.label(rank, group), self._place(rank, group)
        return (other for other in self.nearest(rank) if here in self._places(other))

    def _place(self, rank: int, group: str) -> tuple[int, int | None]:
        """Among how many ranks of a group the rank sends and receives, and where it is among these."""
        return len(self.places.among(rank, group)), self.places.place(rank, group)

    def _places(self, rank: int) -> set[tuple[str | None, tuple[int, int | None]]]:
        return {(label, self._place(rank, group)) for group, label in self.labels(rank).items()}

    def kind(self, rank: int, group: str, *, point_to_point: bool) -> CallKind | None:
        """The kind of a rank's calls in the group with this name, None where its dump does not know the group."""
        label = self.labels(rank).get(group)
        return CallKind(label, point_to_point) if label is not None else None

    def calls_at(self, rank: int, kind: CallKind, number: int) -> Iterator[Call]:
        """The rank's call of this kind with this number, where its dump holds it."""
        place = self.program(rank).place(kind, number)
        if place is not None:
            yield self.records[rank].calls[self.records[rank].call[place]]

    def times(self, rank: int, kind: CallKind, call: Call) -> int:
        """How many calls of this kind with the operation and the tensors of `call` the rank's dump holds."""
        record, labels = self.records[rank], self.labels(rank)
        same = {
            number
            for number, one in enumerate(record.calls)
            if replace(one, group=call.group, timeout_ms=call.timeout_ms) == call
            and kind == CallKind(labels[record.groups[one.group].name], one.point_to_point)
        }
        return sum(number in same for number in record.call) if same else 0

    def made_by_others(self, rank: int, kind: CallKind, other_kind: CallKind, number: int) -> dict[int, int]:
        """The number of each other rank's last call of `kind` before its call `number` of `other_kind`."""
        part = self.program(rank).part
        found = {}
        for other in self.nearest(rank, self._with_part(part)):
            program = self.program(other)
            place = program.place(other_kind, number)
            made = program.made_before(kind, place) if place is not None else None
            if made is not None:
                found[other] = made
                if len(found) == MOST_COMPARED:
                    break
        return found

    def nearest(self, rank: int, among: Sequence[int] | None = None) -> Iterator[int]:
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
                self._parts.setdefault(self.program(rank).part, []).append(rank)
        return self._parts[part]

    def program(self, rank: int) -> RankProgram:
        """The calls of a rank by kind, read when they are first asked for."""
        if rank not in self._programs:
            record = self.records[rank]
            self._programs[rank] = self._read(rank, record)
        return self._programs[rank]

    def _read(self, rank: int, record: FlightRecord) -> RankProgram:
        part = set()
        calls, labels = self._calls_in(rank, record), self.labels(rank)
        last = dict(calls.last)
        for name, group in self.groups(rank).items():
            label, members = labels[name], group.ranks or ()
            place_in_group = self.places.place(rank, name) if label in self._pipelines else None
            part.add(("" if label.startswith(NAMED) else label, len(members), place_in_group))
        for group in record.groups:
            kind = self._counted(labels[group.name], group.last_enqueued, calls)
            if group.last_enqueued is not None and kind is not None:
                last[kind] = max(group.last_enqueued, last.get(kind, 0))
        return RankProgram(
            places=calls.places,
            numbers=calls.numbers,
            last=last,
            end=calls.end,
            part=frozenset(part),
            whole=not record.lost and not record.statuses,
            by_threads=calls.by_threads,
        )

    def _counted(self, label: str, last_enqueued: int | None, calls: CallPlaces) -> CallKind | None:
        """What the table of groups counts: the calls of the kind of the last one. None where no entry tells the kind."""
        both = [CallKind(label, point_to_point=between) for between in (False, True)]
        if label not in self._pipelines:
            return both[0]
        if label not in self._with_collectives:
            return both[1]
        ends = [kind for kind in both if calls.numbers.get(kind, [None])[-1] == last_enqueued]
        return ends[0] if len(ends) == 1 else None

    def groups(self, rank: int) -> Mapping[str, ProcessGroup]:
        """The groups of a rank by name, with their members as far as anything tells them.

        A recorder may know a group by its calls alone, and does not show one that the rank is in and has not reached.
        """
        if rank not in self._groups_of:
            groups = {group.name: group for group in self.records[rank].groups}
            for one in self.memberships.get(rank, ()):
                group = one.group_sequences.group
                known = groups.setdefault(group.name, group)
                if known.ranks != one.members:
                    groups[group.name] = replace(known, ranks=one.members)
            self._groups_of[rank] = groups
        return self._groups_of[rank]

    def label(self, rank: int, group: str) -> str | None:
        """What ranks with the same part in the job call the rank's group of this name; None where the rank is not in it."""
        return self.labels(rank).get(group)

    def labels(self, rank: int) -> Mapping[str, str]:
        """What each group of a rank is called on all ranks with the same part, by name."""
        if rank not in self._labels_of:
            self._labels_of[rank] = labels_of(self.groups(rank).values())
        return self._labels_of[rank]

    def _calls_in(self, rank: int, record: FlightRecord) -> CallPlaces:
        """Ranks that made the same calls share the columns of their records, and the answer."""
        labels = self.labels(rank)
        kinds = tuple(CallKind(labels[record.groups[call.group].name], call.point_to_point) for call in record.calls)
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
