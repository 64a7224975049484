"""How what the ranks found gets from each host's leader to rank 0, through the store that all leaders reach."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec
from torch.distributed import DistError, Store  # type: ignore[attr-defined] # public all the same

from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.transport.bundle import Bundle, BundleError, HostClock, ProcessIdentity
from ddpdoctor.transport.host_relay import FORWARD_SECONDS, MOST_SENT_BYTES, Relay, RelayMember
from ddpdoctor.transport.store import LEAST_SECONDS, clear, get, put, wait_for

PINGS = 5
GOOD_ENOUGH_SECONDS = 0.005  # half a round trip; clocks that DDP122 reports are further apart by far
QUIET_PINGS = 2  # rank 0 may be with another host when the first one comes
CLOCK_SECONDS = 5.0
TURN_SECONDS = 0.002  # between two looks for a leader that speaks
LEAVE_SECONDS = 5.0
READ_SECONDS = 10.0  # for a message that is in the store, on a busy host
POLL_SECONDS = 0.05  # rank 0 asks again and again, and never waits in the store for one message
MOST_DUE = 4096  # announced messages that are not there yet
LEADER_DIGITS = 9
MOST_HELD_BYTES = 16 << 30  # of all ranks, in rank 0's memory: what comes after it is named, and left out
MOST_UNREAD = 8  # messages that cannot be used are named; a sender of thousands is not named thousands of times


@dataclass(slots=True)
class Gathered:
    """What rank 0 has been told."""

    bundle: Bundle = field(default_factory=Bundle)
    """Of all processes."""
    leaders: dict[int, str] = field(default_factory=dict)
    """The clock of each leader, by its number."""
    unread: list[str] = field(default_factory=list)
    """Messages that could not be used, and why."""

    _bytes_held: int = 0
    _full: bool = False
    _told: set[int] = field(default_factory=set)
    _open: set[ProcessIdentity] = field(default_factory=set)

    def merge(self, bundle: Bundle) -> None:
        """Take over what a message, or rank 0 itself, tells.

        Raises:
            BundleError: there is no room for some of its bodies; all else is taken over, and nobody waits for them.
        """
        taken, refused = Bundle(accounts=bundle.accounts), 0
        for digest, body in bundle.bodies.items():
            if digest in self.bundle.bodies:
                continue
            if self._bytes_held + len(body) > MOST_HELD_BYTES:
                refused += len(body)
            else:
                taken.bodies[digest] = body
                self._bytes_held += len(body)
        self._full = self._full or bool(refused)
        self.bundle.merge(taken)
        self._open |= bundle.accounts.keys()
        complete = {
            who for who in self._open if self.bundle.complete(who) or (self._full and self.bundle.has_told(who))
        }
        self._told |= {who.rank for who in complete}
        self._open -= complete
        if refused:
            raise BundleError(
                f"rank 0 has no room for {refused} bytes of it: it holds {self._bytes_held} bytes already"
            )

    def has_all(self, world_size: int) -> bool:
        """Whether every rank of the job has told all that it found."""
        return len(self._told) >= world_size and all(rank in self._told for rank in range(world_size))


def collect(
    store: Store, gathered: Gathered, world_size: int, *, until: float, on_change: Callable[[Bundle], None]
) -> None:
    """Fill `gathered` until every rank has told what it found or `until` (of `time.monotonic`) has passed.

    A leader that ends between the announcement of a message and the message itself delays nobody else. `on_change` is called
    after each look, about 20 times a second.
    """
    known, due = 0, set[int]()
    while True:
        announced = min(store.add("bundles", 0), known + MOST_DUE - len(due))
        due |= {*range(known + 1, announced + 1)}
        known = max(known, announced)
        there = [number for number in sorted(due) if store.check([f"bundle/{number}"])]
        for number in there:
            _read(store, number, gathered)
        due.difference_update(there)
        on_change(gathered.bundle)
        if (there and gathered.has_all(world_size)) or time.monotonic() > until:
            return
        time.sleep(0.0 if there else POLL_SECONDS)


def _read(store: Store, number: int, gathered: Gathered) -> None:
    """One message: the number of the leader that sent it, and a bundle. It leaves the store, which is memory of this host."""
    leader = b""
    try:
        message = get(store, f"bundle/{number}", until=time.monotonic() + READ_SECONDS) or b""
        leader, _, data = message.partition(b"\n")
        bundle = Bundle.decode(data)
        if leader.isdigit() and len(leader) <= LEADER_DIGITS:
            gathered.leaders.update({int(leader): who.clock for who in bundle.accounts})
        gathered.merge(bundle)
    except (BundleError, ValueError) as error:
        if len(gathered.unread) < MOST_UNREAD:
            sender = f" of leader {leader[:LEADER_DIGITS].decode(errors='replace')}" if leader else ""
            gathered.unread.append(f"message {number}{sender} cannot be used: {error}")
    with contextlib.suppress(DistError, ValueError):
        clear(store, f"bundle/{number}")


def compare_clocks(store: Store, gathered: Gathered, own: ProcessIdentity) -> dict[str, HostClock]:
    """How far the clock of each other host is ahead of ours, from the quickest of a few round trips.

    All hosts are asked at once, and served one at a time: whoever speaks first has all its round trips while the others wait,
    so that its time does not contain theirs. Hosts that do not answer cost `CLOCK_SECONDS` together.
    """
    leaders: dict[str, int] = {}
    for leader, clock in gathered.leaders.items():
        if clock != own.clock:
            leaders.setdefault(clock, leader)
    asked = {clock: _Trips(store, leader) for clock, leader in leaders.items()}
    offsets: dict[str, HostClock] = {}
    store.set_timeout(timedelta(seconds=CLOCK_SECONDS))
    try:
        for leader in leaders.values():
            store.set(f"turn/{leader}", "clock")
        until = time.monotonic() + CLOCK_SECONDS
        while asked and time.monotonic() < until:
            speaking = [clock for clock, trips in asked.items() if trips.is_due()]
            for clock in speaking:
                trips = asked[clock]
                trips.go_on()
                if trips.offset is not None:
                    offsets[clock] = trips.offset
                if trips.over:
                    del asked[clock]
                    until = time.monotonic() + CLOCK_SECONDS
            if not speaking:
                time.sleep(TURN_SECONDS)
    except DistError:  # the store has ended: what is known by now is true all the same
        pass
    return offsets


@dataclass(slots=True)
class _Trips:
    """Rank 0's side of the round trips of one leader, which says in the end what it measured."""

    store: Store
    leader: int
    done: int = 0
    over: bool = False
    offset: HostClock | None = None

    def is_due(self) -> bool:
        """Whether the leader waits for rank 0 now."""
        return bool(self.store.check([self._key]))

    def go_on(self) -> None:
        """Answer the leader until it is done, or is slower than a round trip that is good enough: then others have their turn."""
        while not self.over and self._comes():
            answer = self.store.get(self._key)
            if answer or self.done == PINGS:
                self.over = True
                with contextlib.suppress(*JSON_ERRORS):
                    self.offset = msgspec.json.decode(answer, type=HostClock)
            else:
                self.store.set(f"pong/{self.leader}/{self.done}", repr(time.time()))
                self.done += 1

    def _comes(self) -> bool:
        with contextlib.suppress(DistError):
            self.store.wait([self._key], timedelta(seconds=2 * GOOD_ENOUGH_SECONDS))
            return True
        return False

    @property
    def _key(self) -> str:
        return f"ping/{self.leader}/{self.done}"


def let_go(store: Store, gathered: Gathered) -> None:
    """Let every leader leave, and with it the ranks of its host; the store may end with this process, so wait for them."""
    for leader in gathered.leaders:
        store.set(f"turn/{leader}", "leave")
    wait_for(store, "left", len(gathered.leaders), seconds=LEAVE_SECONDS)


def lead(relay: Relay, member: RelayMember, connect: Callable[[], Store]) -> None:
    """A leader's part: bring to rank 0 what the relay has, compare clocks when asked, and stay until rank 0 lets go.

    Raises:
        TimeoutError: rank 0's store is not reached, or it ends too early.
    """
    try:
        turns, messages = connect(), connect()  # a store answers one question of a connection at a time
        number = turns.add("leaders", 1)
        relay.add(member.who)
        with _forwarding(relay, messages, number):
            relay.add(member.who, member.parts())
            _answer(turns, number, member.leave_until)
        turns.add("left", 1)
    except DistError as error:
        raise TimeoutError(first_line(error)) from None


def first_line(error: BaseException) -> str:
    """The error's own first line, without torch's C++ stack."""
    return str(error).partition("\n")[0].partition(" Exception raised from")[0]


@contextlib.contextmanager
def _forwarding(relay: Relay, store: Store, number: int) -> Iterator[None]:
    """Send what the relay has, as it comes, from a thread."""
    stop = threading.Event()

    def forward() -> None:
        with contextlib.suppress(DistError):  # the leader's own turn shows it, too
            while not stop.wait(FORWARD_SECONDS):
                fresh = relay.take(wait_seconds=LEAVE_SECONDS)
                for portion in fresh.portions(MOST_SENT_BYTES) if fresh is not None else ():
                    put(store, f"bundle/{store.add('bundles', 1)}", b"%d\n%b" % (number, portion.encode()))

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()


def _answer(store: Store, number: int, until: float) -> None:
    """Wait for the turn to compare clocks, then to leave."""
    store.set_timeout(timedelta(seconds=max(LEAST_SECONDS, until - time.monotonic())))
    if store.get(f"turn/{number}") == b"clock":
        trips = []
        for ping in range(PINGS):
            sent = time.time()
            store.set(f"ping/{number}/{ping}", "")
            theirs = float(store.get(f"pong/{number}/{ping}"))
            back = time.time()
            trips.append((back - sent, (sent + back) / 2 - theirs))
            if len(trips) >= QUIET_PINGS and min(trips)[0] / 2 < GOOD_ENOUGH_SECONDS:
                break
        took, ahead = min(trips)
        offset = {"ahead_seconds": ahead, "error_seconds": took / 2}
        store.set(f"ping/{number}/{len(trips)}", json.dumps(offset))
        while store.get(f"turn/{number}") != b"leave":
            time.sleep(FORWARD_SECONDS)
