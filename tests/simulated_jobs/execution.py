"""When each call of each rank is enqueued, begun and completed: a host that runs ahead, and a device that works in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulated_jobs.faults import Disturbance
from tests.simulated_jobs.program import Call, Item, Needs, Synchronize
from tests.simulated_jobs.topology import ProcessGroup, Topology

ENQUEUE_NS = 30_000
TRANSFER_NS = 50_000
LIKE_WHAT_PEERS_GIVE = frozenset({"all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast"})


@dataclass(slots=True, eq=False)
class Issued:
    """One call that a rank has enqueued, and how far it came. Times are nanoseconds since the job began, None: never."""

    rank: int
    call: Call
    group: ProcessGroup
    index: int
    seq: int
    created: int
    after: tuple[Issued, ...]
    waits_for: int = 0
    ready: int | None = None
    done: int | None = None
    noticed: bool = True
    unblocks: list[Issued] = field(default_factory=list)


@dataclass(slots=True)
class _Rank:
    program: Sequence[Item]
    clock: int = 0
    position: int = 0
    issued: list[Issued] = field(default_factory=list)
    needed: tuple[Issued, ...] = ()
    awaited: Issued | None = None
    numbers: dict[tuple[str, bool], int] = field(default_factory=lambda: defaultdict(int))
    batch: int | None = None
    last: dict[tuple[str, int | None, str], Issued] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Key:
    group: str
    number: int
    ends: tuple[int, int] | None = None


class Execution:
    """A run of the programs under a disturbance, until nothing moves any more."""

    def __init__(
        self, topology: Topology, programs: Sequence[Sequence[Item]], disturbance: Disturbance, seed: int = 0
    ) -> None:
        self.topology = topology
        self._disturbance = disturbance
        self._random = Random(seed)
        self._ranks = [_Rank(program) for program in programs]
        self._met: dict[_Key, list[Issued]] = defaultdict(list)
        self._pairs: dict[tuple[int, str, int, int], int] = defaultdict(int)
        self._groups = {
            (rank, group.description): group for rank in range(topology.world) for group in topology.groups_of(rank)
        }
        self._todo = list(range(topology.world))
        while self._todo:
            self._advance(self._todo.pop(0))

    @property
    def issued(self) -> list[list[Issued]]:
        """The calls of every rank, in order."""
        return [rank.issued for rank in self._ranks]

    @property
    def finished(self) -> bool:
        """Whether every rank came to the end of its program and every call was completed."""
        return all(
            rank.position == len(rank.program) and all(call.done is not None and call.noticed for call in rank.issued)
            for rank in self._ranks
        )

    def _advance(self, number: int) -> None:
        rank = self._ranks[number]
        stops_at = self._disturbance.host_stops.get(number)
        while rank.position < len(rank.program) and (stops_at is None or rank.position < stops_at):
            match rank.program[rank.position]:
                case Synchronize():
                    waits = [call for call in rank.needed if call.done is None or not call.noticed]
                    if waits:
                        return
                    rank.clock = max([rank.clock, *(call.done or 0 for call in rank.needed)])
                case Needs(description=description):
                    same = (call for call in rank.issued[-64:] if call.group.description == description)
                    rank.needed = (*rank.needed, *(call for call in same if call.done is None))
                case Call() as call:
                    self._enqueue(number, rank, call)
            rank.position += 1

    def _enqueue(self, number: int, rank: _Rank, call: Call) -> None:
        rank.clock += int(ENQUEUE_NS * self._random.uniform(0.5, 1.5))
        group = self._groups[number, call.description]
        between = call.peer is not None
        if not between or call.batch is None or call.batch != rank.batch:
            rank.numbers[group.name, between] += 1
        rank.batch = call.batch
        queue = (group.name, call.peer, call.op if between else "")
        before = rank.last.get(queue)
        issued = Issued(
            rank=number,
            call=call,
            group=group,
            index=rank.position,
            seq=rank.numbers[group.name, between],
            created=rank.clock,
            after=tuple({id(one): one for one in (*rank.needed, *((before,) if before else ()))}.values()),
            noticed=self._notices(number, rank.position),
        )
        rank.last[queue] = issued
        rank.issued.append(issued)
        if call.needed:
            rank.needed = (issued,)
        for one in issued.after:
            if one.done is None:
                issued.waits_for += 1
                one.unblocks.append(issued)
        if not issued.waits_for:
            self._begin(issued)

    def _notices(self, number: int, position: int) -> bool:
        blind_from = self._disturbance.completions_unnoticed.get(number)
        return blind_from is None or position < blind_from

    def _begin(self, issued: Issued) -> None:
        device_stops = self._disturbance.device_stops.get(issued.rank)
        if device_stops is not None and issued.index >= device_stops:
            return
        issued.ready = max([issued.created, *(one.done or 0 for one in issued.after)])
        key = self._key(issued)
        met = self._met[key]
        met.append(issued)
        expected = 2 if key.ends else len(issued.group.ranks)
        if len(met) == expected and self._passes(met):
            done = max(one.ready or 0 for one in met) + TRANSFER_NS
            for one in met:
                one.done = done + self._random.randrange(2000)
            for one in met:
                self._complete(one)

    def _complete(self, issued: Issued) -> None:
        self._todo.append(issued.rank)
        for following in issued.unblocks:
            following.waits_for -= 1
            if not following.waits_for:
                self._begin(following)

    def _key(self, issued: Issued) -> _Key:
        if issued.call.peer is None:
            return _Key(issued.group.name, issued.seq)
        ends = (issued.rank, issued.call.peer)
        source, target = ends if issued.call.op == "send" else ends[::-1]
        counter = (issued.rank, issued.group.name, source, target)
        self._pairs[counter] += 1
        return _Key(issued.group.name, self._pairs[counter], (source, target))

    def _passes(self, met: Sequence[Issued]) -> bool:
        first = met[0]
        if self._disturbance.is_stuck(first.group.name, first.call.peer is not None, first.seq):
            return False
        if first.call.peer is not None:
            return True
        alike = {(one.call.op, one.call.sizes if one.call.op in LIKE_WHAT_PEERS_GIVE else ()) for one in met}
        return len(alike) == 1
