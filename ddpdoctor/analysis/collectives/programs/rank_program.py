"""One rank's calls by kind: how many it has made of each, and where they are in its flight record."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import repeat
from typing import NamedTuple

from ddpdoctor.analysis.collectives.recorders.multithreaded import began_in_a_thread
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.recorder import FlightRecord, State

FARTHEST = 64  # calls by which a program may differ and still be the same program


class CallKind(NamedTuple):
    """The collectives, or the sends and receives, of one group of a rank."""

    group: str
    """What ranks with the same part in the job call the group: see `group_labels.labels_of`."""
    point_to_point: bool
    """Whether it is its sends and receives, which PyTorch numbers apart from its collectives."""


Part = frozenset[tuple[str, int, int | None]]
"""The groups of a rank by label and size, with its place in those in which ranks send and receive."""


@dataclass(frozen=True, slots=True)
class RankProgram:
    """One rank's calls by kind, and the rank's part in the job."""

    places: Mapping[CallKind, list[int]]
    """The places in the record of the calls in `numbers`, in order."""
    numbers: Mapping[CallKind, list[int]]
    """The sequence numbers in the record, ascending, each once."""
    last: Mapping[CallKind, int]
    """The number of the last call where the record or the group's status tells it, also of calls that the record has lost."""
    end: int
    """The last place of the record that shows where the rank was; -1 in an empty one."""
    part: Part
    """The rank's part in the job."""
    whole: bool
    """Whether a kind without a number is one that the rank never called: the dump holds all calls."""
    by_threads: Collection[CallKind] = ()
    """The kinds all of whose calls with a stack come from a thread that the program started."""

    def in_one_thread(self, kind: CallKind, other: CallKind) -> bool:
        """Whether calls of these kinds follow each other in the program: those of two threads meet by chance."""
        return (kind in self.by_threads) == (other in self.by_threads)

    def made_before(self, kind: CallKind, place: int) -> int | None:
        """The number of the last call of this kind before this place in the record, None where the dump does not tell.

        A dump of active entries alone does not tell it of calls between two that it holds.
        """
        numbers = self.numbers.get(kind)
        if not numbers:
            return self.last.get(kind) if place == self.end else None
        before = bisect_left(self.places[kind], place)
        if before == 0:
            return numbers[0] - 1
        following = numbers[before] - 1 if before < len(numbers) else max(numbers[-1], self.last.get(kind, 0))
        return following if following == numbers[before - 1] else None

    def kinds(self) -> set[CallKind]:
        """The kinds of which the number of calls is known."""
        return {*self.numbers, *self.last}

    def called(self, kind: CallKind) -> int:
        """How many calls of this kind the rank has made, 0 where that is not known."""
        return max(self.numbers.get(kind, [0])[-1], self.last.get(kind, 0))

    def ends(self) -> tuple[tuple[CallKind, int], ...]:
        """How many calls of each kind the rank has made in all."""
        return tuple(sorted((kind, self.called(kind)) for kind in self.kinds()))

    def place(self, kind: CallKind, number: int) -> int | None:
        """Where in the record this call is."""
        numbers = self.numbers.get(kind, [])
        position = bisect_left(numbers, number)
        return self.places[kind][position] if position < len(numbers) and numbers[position] == number else None

    def position(self, kind: CallKind, number: int) -> float | None:
        """Where this call is: as `place`, endless where the rank has not made it, and -1 where it is lost or was dropped.

        None where the number of calls of this kind is not known.
        """
        if kind not in self.kinds() or number > self.called(kind):
            return math.inf if kind in self.kinds() else None
        place = self.place(kind, number)
        before_all = number < self.numbers.get(kind, [number + 1])[0]
        return place if place is not None else -1 if before_all else None


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """The calls in a record by kind."""

    places: Mapping[CallKind, list[int]]
    """The places in the record of the calls in `numbers`, in order."""
    numbers: Mapping[CallKind, list[int]]
    """The sequence numbers of each kind, ascending, each once."""
    last: Mapping[CallKind, int]
    """The number of the last call of each kind in the record, of those too that do not show where the rank was."""
    end: int
    """The last place of the record that shows where the rank was; -1 in an empty one."""
    by_threads: Collection[CallKind] = ()
    """The kinds all of whose calls with a stack come from a thread that the program started."""


def call_places(record: FlightRecord, kinds: Sequence[CallKind]) -> CallPlaces:
    """The calls in this record by kind; `kinds` holds the kind of each of its distinct calls."""
    places: dict[CallKind, list[int]] = defaultdict(list)
    numbers: dict[CallKind, list[int]] = defaultdict(list)
    end = -1
    for place in _placing_entries(record):
        kind, number = kinds[record.call[place]], record.seq[place]
        end = place
        if not numbers[kind] or numbers[kind][-1] < number:
            places[kind].append(place)
            numbers[kind].append(number)
    last = {kinds[call]: number for call, number in zip(record.call, record.seq, strict=True)}
    return CallPlaces(places=places, numbers=numbers, last=last, end=end, by_threads=_by_threads(record, kinds))


def ahead_of(mine: RankProgram, other: RankProgram) -> dict[CallKind, int]:
    """By how many calls of each kind `mine` is ahead, of those that both records show of."""
    kinds = mine.kinds() | other.kinds() if mine.whole and other.whole else mine.kinds() & other.kinds()
    return {one: mine.called(one) - other.called(one) for one in kinds}


def ahead_of_most(rank: int, differences: Mapping[int, int]) -> int | None:
    """By how many calls the rank is ahead of most others, given by how many it is of each; None where no majority is alike."""
    near = {other: extra for other, extra in differences.items() if abs(extra) <= FARTHEST}
    sides = vote({**near, rank: 0})  # the rank is one of those that it is compared with
    if len(near) < 2 or sides.tied:
        return None
    return 0 if sides.majority[0] == rank else near[sides.majority[0]]


def latest_first(program: RankProgram, without: CallKind) -> Iterator[tuple[CallKind, int, int]]:
    """The calls of all other kinds of the same thread, the latest first: kind, number, place."""
    found = (
        zip(repeat(kind), reversed(numbers), reversed(program.places[kind]))
        for kind, numbers in program.numbers.items()
        if kind != without and program.in_one_thread(kind, without)
    )
    return merge(*found, key=lambda one: -one[2])


def _by_threads(record: FlightRecord, kinds: Sequence[CallKind]) -> frozenset[CallKind]:
    """The kinds whose calls come from threads alone; none where the stacks show no thread."""
    threads = [began_in_a_thread(record, stack) if stack else None for stack in record.stacks]
    if True not in threads:
        return frozenset()
    found: dict[CallKind, set[bool | None]] = defaultdict(set)
    for call, stack in {*zip(record.call, record.stack, strict=True)}:
        found[kinds[call]].add(threads[stack])
    return frozenset(kind for kind, seen in found.items() if seen - {None} == {True})


def _placing_entries(record: FlightRecord) -> Iterable[int]:
    """The entries that tell where in its program the rank was.

    Of a dump of active entries alone, those that it still holds although they are complete do not.
    """
    collective = [not call.point_to_point for call in record.calls]
    if any(state is State.DONE and collective[call] for call, state in zip(record.call, record.state, strict=True)):
        return range(len(record))
    return [place for place, state in enumerate(record.state) if state is not State.DONE]
