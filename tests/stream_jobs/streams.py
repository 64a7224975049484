"""Runs programs: hosts enqueue, every communicator of a rank has a stream that runs in order, and waits join streams.

Times are exact: an event happens when the last of what it depends on has. What depends on something that never happens never
does, which is a hang. A transfer of its own uses a communicator of the two ranks, a batch that of the group.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tests.stream_jobs.layouts import Group
from tests.stream_jobs.programs import Collective, Compute, Instruction, Synchronize, Transfer, Transfers, Wait

HOST_SECONDS = 4e-5  # between two calls of a host
WIRE_SECONDS = 2e-4
ROOTED = frozenset({"broadcast"})

Key = tuple[str, int, int]
"""A communicator: the name of its group, and the two ranks of a transfer, -1 for all."""


class Event:
    """Something that happens when all that it depends on has; `at` is None until then."""

    __slots__ = ("_after", "_latest", "_missing", "at", "delay", "valid")

    def __init__(
        self, depends: Iterable[Event] = (), *, delay: float = 0.0, valid: Callable[[float], bool] | None = None
    ) -> None:
        self.at: float | None = None
        self.delay, self.valid = delay, valid
        self._after: list[Callable[[], None]] = []
        self._missing, self._latest = 1, 0.0
        for one in depends:
            self.needs(one)
        self.close()

    @classmethod
    def pending(cls) -> Event:
        """One that `close` must be called for, when all that it needs is known."""
        event = cls.__new__(cls)
        event.at, event.delay, event.valid = None, 0.0, None
        event._after, event._missing, event._latest = [], 1, 0.0
        return event

    @classmethod
    def of(cls, at: float) -> Event:
        """One that has happened."""
        return cls(delay=at)

    def needs(self, other: Event) -> None:
        """It does not happen before the other one."""
        if other.at is not None:
            self._latest = max(self._latest, other.at)
            return
        self._missing += 1
        other._after.append(lambda: self._met(other))

    def close(self) -> None:
        """All that it needs has been named."""
        self._resolve()

    def then(self, call: Callable[[], None]) -> None:
        """Call this when it happens."""
        self._after.append(call)

    def _met(self, other: Event) -> None:
        assert other.at is not None
        self._latest = max(self._latest, other.at)
        self._resolve()

    def _resolve(self) -> None:
        self._missing -= 1
        if self._missing or (self.valid is not None and not self.valid(self._latest + self.delay)):
            return
        self.at = self._latest + self.delay
        _QUEUE.extend(self._after)
        self._after.clear()


_QUEUE: deque[Callable[[], None]] = deque()


@dataclass(slots=True)
class Entry:
    """What the recorder keeps of a call. `ready` is when its kernel begins, `end` when it is through."""

    group: Group
    op: str
    collective: int
    transfer: int
    number: int
    created: float
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: str
    between: bool
    line: int
    ready: Event | None
    end: Event | None
    """None for the parts of a batch: the entry that closes it has the events."""


@dataclass(slots=True)
class _Call:
    rank: int
    what: Collective
    ready: Event
    end: Event


@dataclass(slots=True)
class _Half:
    rank: int
    sizes: tuple[int, ...]
    ready: Event
    end: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What goes wrong, beside changed programs. Ranks map to a place in the program, or to seconds."""

    frozen: Mapping[int, int] = field(default_factory=dict)
    """The host of the rank does not come to this instruction."""
    stopped: Mapping[int, float] = field(default_factory=dict)
    """From when on the rank's device does nothing."""
    dead: Mapping[int, float] = field(default_factory=dict)
    """From when on the rank's host and device do nothing."""
    cut: tuple[Key, int] | None = None
    """The collective, or the transfer, of a communicator that never ends: a key of `Run.members`."""


@dataclass(slots=True)
class Host:
    """One rank: where it is in its program, its streams, and what it has recorded."""

    rank: int
    program: Sequence[Instruction]
    at: int = 0
    clock: float = 0.0
    entries: list[Entry] = field(default_factory=list)
    default: Event = field(default_factory=lambda: Event.of(0.0))
    streams: dict[Key, Event] = field(default_factory=dict)
    works: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    collectives: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    transfers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    reached: list[float] = field(default_factory=list)
    """When the host came to each instruction."""

    @property
    def through(self) -> bool:
        """Whether it came to the end of its program."""
        return self.at == len(self.program)


class Run:
    """The job: after construction all that happens has happened."""

    def __init__(self, programs: Sequence[Sequence[Instruction]], trouble: Trouble | None = None) -> None:
        self.trouble = trouble or Trouble()
        self.hosts = [Host(rank, program) for rank, program in enumerate(programs)]
        self.members: dict[tuple[Key, int], tuple[int, ...]] = {}
        """The ranks of every collective and transfer by communicator and number."""
        self._collectives: dict[tuple[Key, int], list[_Call]] = defaultdict(list)
        self._halves: dict[tuple[Key, int, int], tuple[deque[_Half], deque[_Half]]] = defaultdict(
            lambda: (deque(), deque())
        )
        self._made: dict[tuple[Key, int], int] = defaultdict(int)
        self._met: dict[Key, int] = defaultdict(int)
        self._draws = count()
        _QUEUE.clear()
        for host in self.hosts:
            self._go(host)
        while _QUEUE:
            _QUEUE.popleft()()

    def hung(self) -> bool:
        """Whether a host did not come to its end."""
        return not all(host.through for host in self.hosts)

    def _go(self, host: Host) -> None:
        frozen = self.trouble.frozen.get(host.rank)
        dead = self.trouble.dead.get(host.rank)
        while not host.through and host.at != frozen and not (dead is not None and host.clock >= dead):
            if len(host.reached) == host.at:
                host.reached.append(host.clock)
            instruction = host.program[host.at]
            if isinstance(instruction, Synchronize):
                if host.default.at is None:
                    host.default.then(lambda: self._go(host))
                    return
                host.clock = max(host.clock, host.default.at)
            else:
                self._enqueue(host, instruction)
            host.clock += HOST_SECONDS
            host.at += 1

    def _enqueue(self, host: Host, instruction: Instruction) -> None:
        if isinstance(instruction, Compute):
            host.default = Event(
                (host.default, Event.of(host.clock)), delay=instruction.seconds, valid=self._alive(host.rank)
            )
        elif isinstance(instruction, Wait):
            for work in host.works.pop(instruction.tag, ()):
                host.default = Event((host.default, work))
        elif isinstance(instruction, Collective):
            self._collective(host, instruction)
        elif isinstance(instruction, Transfers):
            self._transfers(host, instruction)

    def _collective(self, host: Host, what: Collective) -> None:
        name = what.group.name
        key = (name, -1, -1)
        host.collectives[name] += 1
        ready, end = self._begin(host, key, what.tag)
        self._record(host, what.group, what.op, what.inputs, what.outputs, what.dtype, False, what.line, ready, end)
        number = self._made[key, host.rank]
        self._made[key, host.rank] += 1
        calls = self._collectives[key, number]
        calls.append(_Call(host.rank, what, ready, end))
        if len(calls) == len(what.group.ranks):
            self.members[key, number] = what.group.ranks
            fits = {(call.what.op, call.what.inputs, call.what.dtype) for call in calls}
            if len(fits) == 1 and self.trouble.cut != (key, number):
                self._ends([call.end for call in calls], [call.ready for call in calls], what.group.ranks)

    def _transfers(self, host: Host, what: Transfers) -> None:
        name = what.group.name
        place = what.group.ranks.index(host.rank)
        if not what.batched:
            for part in what.parts:
                host.transfers[name] += 1
                key = (name, min(host.rank, part.peer), max(host.rank, part.peer))
                ready, end = self._begin(host, key, what.tag)
                self._record(host, what.group, _named(what.group, place, part), part.sizes, part.sizes, "BFloat16", True,
                             what.line, ready, end)  # fmt: skip
                self._half(host.rank, key, part, ready, end)
            return
        host.transfers[name] += 1
        key = (name, -1, -1)
        ready, end = self._begin(host, key, what.tag)
        for part in what.parts:
            self._record(host, what.group, _named(what.group, place, part), part.sizes, part.sizes, "BFloat16", True,
                         what.line, ready, None)  # fmt: skip
            through = Event.pending()
            end.needs(through)
            self._half(host.rank, key, part, ready, through)
        end.close()
        self._record(host, what.group, "coalesced", (), (), "", True, what.line, ready, end)

    def _begin(self, host: Host, key: Key, tag: str) -> tuple[Event, Event]:
        """When the kernel begins, and the event of its end; the stream, and the default stream or the tag, wait for it."""
        before = [host.default, Event.of(host.clock)]
        if key in host.streams:
            before.append(host.streams[key])
        ready = Event(before, valid=self._alive(host.rank))
        end = Event.pending()
        host.streams[key] = end
        if tag:
            host.works[tag].append(end)
        else:
            host.default = Event((host.default, end))
        return ready, end

    def _half(self, rank: int, key: Key, part: Transfer, ready: Event, end: Event) -> None:
        source, target = (rank, part.peer) if part.send else (part.peer, rank)
        sends, receives = self._halves[key, source, target]
        (sends if part.send else receives).append(_Half(rank, part.sizes, ready, end))
        if sends and receives:
            one, other = sends.popleft(), receives.popleft()
            number = self._met[key]
            self._met[key] += 1
            self.members[key, -1 - number] = tuple(sorted((source, target)))
            if one.sizes == other.sizes and self.trouble.cut != (key, -1 - number):
                self._ends([one.end, other.end], [one.ready, other.ready], (source, target))

    def _ends(self, ends: Sequence[Event], ready: Sequence[Event], ranks: Sequence[int]) -> None:
        delay = WIRE_SECONDS * (1 + next(self._draws) * 7 % 5 / 10)
        checks = [check for rank in ranks if (check := self._alive(rank)) is not None]
        valid = (lambda at: all(check(at) for check in checks)) if checks else None
        met = Event(ready, delay=delay, valid=valid)
        for end in ends:
            end.needs(met)
            end.close()

    def _alive(self, rank: int) -> Callable[[float], bool] | None:
        limits = [times[rank] for times in (self.trouble.stopped, self.trouble.dead) if rank in times]
        return (lambda at: at <= min(limits)) if limits else None

    def _record(
        self,
        host: Host,
        group: Group,
        op: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        dtype: str,
        between: bool,
        line: int,
        ready: Event,
        end: Event | None,
    ) -> None:
        host.numbers[group.name] += 1
        host.entries.append(
            Entry(
                group=group,
                op=op,
                collective=host.collectives[group.name],
                transfer=host.transfers[group.name],
                number=host.numbers[group.name],
                created=host.clock + len(host.entries) * 1e-9,
                inputs=inputs,
                outputs=outputs,
                dtype=dtype,
                between=between,
                line=line,
                ready=ready,
                end=end,
            )
        )


def _named(group: Group, place: int, part: Transfer) -> str:
    peer = group.ranks.index(part.peer)
    return f"send {place}->{peer}" if part.send else f"recv {place}<-{peer}"
