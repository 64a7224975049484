"""A run of the programs: when every call was enqueued, begun and completed, under a fault."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.random_jobs.layout import Group, Mesh
from tests.random_jobs.program import Drain, Item, Op

HOST_NS, DEVICE_NS = 20_000, 80_000
AHEAD = 200  # calls that a host may have under way
SIZES_AGREE = {"all_reduce", "broadcast", "_all_gather_base", "_reduce_scatter_base"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong where; positions are those in a rank's program.

    A host halts before a position. A rank notices no completion from a position on. `stuck` tells whether the
    calls that have met never end, given their number in their group or between the two ranks.
    """

    halts: dict[int, int] = field(default_factory=dict)
    blind: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    stuck: Callable[[Sequence[Event], int], bool] = lambda _met, _number: False


@dataclass(slots=True, eq=False, kw_only=True)
class Event:
    """One call of one rank, with its number in its group, or among the sends and receives of its group."""

    rank: int
    op: Op
    group: Group
    number: int
    position: int
    created: int
    blockers: int = 0
    followers: list[Event] = field(default_factory=list)
    begun: int | None = None
    ended: int | None = None
    seen: bool = True

    @property
    def through(self) -> bool:
        """Whether its rank knows that it has ended."""
        return self.ended is not None and self.seen


class Run:
    """The run, until nothing moves any more."""

    def __init__(self, mesh: Mesh, programs: Sequence[Sequence[Item]], fault: Fault, random: Random) -> None:
        self.mesh = mesh
        self._programs = programs
        self._fault = fault
        self._random = random
        self.events: list[list[Event]] = [[] for _ in programs]
        self._next = [0] * len(programs)
        self._clock = [random.randrange(5000) for _ in programs]
        self._under_way = [0] * len(programs)
        self._open: list[list[Event]] = [[] for _ in programs]
        self._joined: list[list[Event]] = [[] for _ in programs]
        self._tail: dict[tuple[int, object], Event] = {}
        self._numbers: Counter[tuple[int, str, bool]] = Counter()
        self._bundle: dict[int, int | None] = {}
        self._pairs: Counter[tuple[int, str, str, int]] = Counter()
        self._meetings: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
        ready = deque(range(len(programs)))
        while ready:
            self._host(ready.popleft(), ready)

    @property
    def finished(self) -> bool:
        """Whether every rank came to the end of its program and knows that every call has ended."""
        ends = (at == len(program) for at, program in zip(self._next, self._programs, strict=True))
        return all(ends) and all(event.through for events in self.events for event in events)

    @property
    def halted(self) -> tuple[int, ...]:
        """The ranks that came to where they halt."""
        return tuple(rank for rank, at in sorted(self._fault.halts.items()) if self._next[rank] == at)

    @property
    def blinded(self) -> tuple[int, ...]:
        """The ranks that did not notice that a call of theirs had ended."""
        return tuple(
            rank
            for rank, events in enumerate(self.events)
            if any(one.ended is not None and not one.seen for one in events)
        )

    def shows(self, rank: int, fault: Fault) -> bool:
        """Whether a rank shows its part in a fault of two: others lack it and it waits for nobody, or it missed a collective."""
        if rank not in fault.halts:
            return any(one.ended is not None and not one.seen and one.op.peer is None for one in self.events[rank])
        lacks = (
            one.op.peer is None and rank in one.group.ranks and one.number > self._numbers[rank, one.group.name, False]
            for events in self.events
            for one in events
        )
        return any(lacks) and all(event.through for event in self.events[rank])

    def _host(self, rank: int, ready: deque[int]) -> None:
        program, halt = self._programs[rank], self._fault.halts.get(rank)
        while self._next[rank] < len(program) and self._next[rank] != halt:
            item = program[self._next[rank]]
            if isinstance(item, Drain):
                if not all(event.through for event in self._open[rank]):
                    return
                self._clock[rank] = max([self._clock[rank], *(event.ended or 0 for event in self._open[rank])])
                self._open[rank] = []
            elif self._under_way[rank] >= AHEAD:
                return
            else:
                self._enqueue(rank, item, ready)
            self._next[rank] += 1

    def _enqueue(self, rank: int, op: Op, ready: deque[int]) -> None:
        self._clock[rank] += self._random.randrange(HOST_NS // 2, 2 * HOST_NS)
        group = self.mesh.group(rank, op.kind)
        if op.bundle is None or op.bundle != self._bundle.get(rank):
            self._numbers[rank, group.name, op.peer is not None] += 1
        self._bundle[rank] = op.bundle
        blind = self._fault.blind.get(rank)
        event = Event(
            rank=rank,
            op=op,
            group=group,
            number=self._numbers[rank, group.name, op.peer is not None],
            position=self._next[rank],
            created=self._clock[rank],
            seen=blind is None or self._next[rank] < blind,
        )
        self.events[rank].append(event)
        self._open[rank].append(event)
        self._under_way[rank] += 1
        channel = (rank, (group.name, op.peer, op.name if op.peer is not None else ""))
        before = [*self._joined[rank], *([self._tail[channel]] if channel in self._tail else [])]
        self._tail[channel] = event
        if op.joined:
            self._joined[rank] = [event]
        for one in {id(one): one for one in before if one.ended is None}.values():
            event.blockers += 1
            one.followers.append(event)
        if not event.blockers:
            self._meet(event, ready)

    def _meet(self, event: Event, ready: deque[int]) -> None:
        event.begun = event.created
        if event.op.peer is None:
            key: tuple[Any, ...] = (event.group.name, event.number)
            expected = len(event.group.ranks)
        else:
            source, target = (event.rank, event.op.peer)[:: 1 if event.op.name == "send" else -1]
            link = (event.rank, event.group.name, event.op.name, event.op.peer)
            self._pairs[link] += 1
            key, expected = (event.group.name, source, target, self._pairs[link]), 2
        here = self._meetings[key]
        here.append(event)
        if len(here) < expected or not _agree(here) or self._fault.stuck(here, key[-1]):
            return
        end = max(max(one.begun or 0 for one in here), *(one.created for one in here))
        end += self._random.randrange(DEVICE_NS // 2, 2 * DEVICE_NS)
        for one in here:
            one.ended = end + self._random.randrange(1000)
            self._under_way[one.rank] -= 1
            ready.append(one.rank)
        for one in here:
            for follower in one.followers:
                follower.blockers -= 1
                follower.created = max(follower.created, 0)
                if not follower.blockers:
                    self._meet(follower, ready)
                    follower.begun = max(follower.begun or 0, one.ended or 0)


def _agree(here: Sequence[Event]) -> bool:
    if here[0].op.peer is not None:
        return True
    return len({(one.op.name, one.op.sizes if one.op.name in SIZES_AGREE else ()) for one in here}) == 1
