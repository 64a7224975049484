"""What the nodes of a job say to each other, without a network: threads that share a store, and listeners on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from typing_extensions import Self as Started

from ddpdoctor.evidence.links import NodeLink
from ddpdoctor.net import protocol, store_mailbox
from ddpdoctor.net.introductions import Introduction
from ddpdoctor.net.keys import Keys
from ddpdoctor.net.protocol import RoundAnswers, follow, introduce, lead
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.net.tcp import Listener

SECONDS = 60.0


class MemoryStore:
    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._lock:
            self._values[key] = value
            self._lock.notify_all()

    def get(self, key: str) -> bytes:
        return self._values[key].encode()

    def add(self, key: str, amount: int) -> int:
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + amount
            return self._counts[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._lock:
            if not self._lock.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                raise RuntimeError("wait timeout")


class Job:
    """`expected` nodes on threads; `numbers` are the node numbers that come, one of them maybe twice."""

    def __init__(self, expected: int, numbers: tuple[int, ...], *, join_seconds: float = SECONDS) -> None:
        self.expected = expected
        self.numbers = numbers
        self.join_seconds = join_seconds
        self.messages = Messages(MemoryStore(), "test")
        self.leave = threading.Event()
        self.followed: dict[int, bool] = {}
        self.threads: list[threading.Thread] = []

    def run(self, *, before: Callable[[int], None] = lambda place: None) -> RoundAnswers:
        """What node 0 gathers; `before` is called in each node's thread, with its place in `numbers`."""
        with ExitStack() as stack:
            for place, number in enumerate(self.numbers[1:], start=1):
                self.threads.append(threading.Thread(target=self._node, args=(place, number, before), daemon=True))
                self.threads[-1].start()
            stack.callback(self.leave.set)
            me = stack.enter_context(_Node(self, 0, 0))
            assert introduce(self.messages, me.said)
            now = time.monotonic()
            return lead(
                self.messages, me.said, me.keys, expected=self.expected, join_until=now + self.join_seconds, until=now + SECONDS
            )  # fmt: skip

    def _node(self, place: int, number: int, before: Callable[[int], None]) -> None:
        before(place)
        with _Node(self, place, number) as me:
            if introduce(self.messages, me.said):
                self.followed[number] = follow(self.messages, me.said, me.keys, until=time.monotonic() + SECONDS)


class _Node:
    def __init__(self, job: Job, place: int, number: int) -> None:
        self.keys = Keys(number, job.expected)
        key_of = partial(self.keys.of, wait_seconds=SECONDS)
        self._listener = Listener("127.0.0.1", key_of, number, lifetime_seconds=SECONDS)
        self._job, self._number = job, number
        self.said = Introduction(
            node=number, nodes=job.expected, host=f"host-{place}", pid=place, address="127.0.0.1",
            port=self._listener.port, public=self.keys.public, speed_mbit=None, facts={},
        )  # fmt: skip

    def __enter__(self) -> Started:
        threading.Thread(target=self._job.messages.pulse, args=(self._number, self._job.leave), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.__exit__()


def ends(gathered: RoundAnswers) -> set[tuple[int, int]]:
    return {(link.source, link.target) for link in gathered.links.links if link.outcome == "ok"}


def test_every_pair_talks_in_both_directions() -> None:
    job = Job(5, (0, 1, 2, 3, 4))
    gathered = job.run()
    assert ends(gathered) == {(a, b) for a in range(5) for b in range(5) if a != b}
    assert (gathered.links.missing, gathered.links.lost, gathered.links.complete) == ((), (), True)
    assert gathered.links.rounds >= 5


def test_a_node_that_never_comes_is_missing_and_the_others_still_talk() -> None:
    gathered = Job(4, (0, 1, 3), join_seconds=2.0).run()
    assert gathered.links.missing == (2,)
    assert ends(gathered) == {(0, 1), (1, 0), (0, 3), (3, 0), (1, 3), (3, 1)}


def test_two_nodes_with_one_number_are_both_known_and_their_number_is_left_to_the_first() -> None:
    gathered = Job(3, (0, 1, 1)).run()
    assert gathered.links.missing == (2,)
    claims = [(arrival.rank, arrival.host) for arrival in gathered.ranks.arrivals]
    assert sorted(rank for rank, _ in claims) == [0, 1, 1]
    assert {host for rank, host in claims if rank == 1} == {"host-1", "host-2"}


def test_a_node_started_twice_hides_none_that_comes_a_moment_later() -> None:
    gathered = Job(3, (0, 1, 1, 2)).run(before=lambda place: time.sleep(2.0 if place == 3 else 0))
    assert gathered.links.missing == ()
    assert sorted(arrival.rank for arrival in gathered.ranks.arrivals) == [0, 1, 1, 2]


@pytest.mark.parametrize("nodes", [3, 4])
def test_a_node_that_falls_silent_is_lost_and_the_rest_goes_on(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2 hangs in its first conversation, and its pulse stops. Of three nodes, a whole round has nobody else in it."""
    talk = protocol.talk

    def hangs(me: int, *rest: Any) -> NodeLink:
        if me != 2:
            return talk(me, *rest)
        threading.Event().wait()  # for as long as this process lives: what comes after would be shown in another test
        raise AssertionError

    monkeypatch.setattr(Messages, "pulse", lambda self, node, stop: None if node == 2 else _pulse(self, node, stop))
    monkeypatch.setattr(protocol, "talk", hangs)
    monkeypatch.setattr(store_mailbox, "SILENT_SECONDS", 2.5)
    gathered = Job(nodes, tuple(range(nodes))).run()
    assert gathered.links.lost == (2,)
    assert {*permutations({*range(nodes)} - {2}, 2)} <= ends(gathered)


_pulse = Messages.pulse


def test_a_pair_that_was_slow_once_gets_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow stream comes in the first round, when there is no median to compare it with."""
    slowed: list[tuple[int, int]] = []

    def halted(me: int, other: int, address: str, port: int, key: bytes) -> NodeLink:
        link = NodeLink(source=me, target=other, outcome="ok", latency_seconds=1e-4, bytes_per_second=1e9)
        if (me, other) not in slowed and me == 0 and not slowed:
            slowed.append((me, other))
            return replace(link, bytes_per_second=1e7)
        return link

    monkeypatch.setattr(protocol, "talk", halted)
    gathered = Job(4, (0, 1, 2, 3)).run()
    assert slowed
    assert {link.bytes_per_second for link in gathered.links.links} == {1e9}
    assert gathered.links.rounds == 4


def test_a_node_that_waits_asks_the_store_once_a_second_and_not_all_the_time() -> None:
    """Regression: every node asked 50 times a second; of hundreds of nodes, the store of rank 0 answered little else."""
    asked: list[str] = []
    store = MemoryStore()
    check = store.check
    store.check = lambda keys: asked.append(keys[0]) or check(keys)  # type: ignore[method-assign,func-returns-value]
    messages = Messages(store, "test")
    threading.Timer(1.0, messages.say, ("plan", [])).start()
    assert messages.hear("plan", list, until=time.monotonic() + SECONDS) == []
    assert len(asked) < 20


def bytes_told(nodes: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """What all nodes but 0 read of node 0 until it is over; links are invented."""
    job, read = Job(nodes, tuple(range(nodes))), []
    store: Any = job.messages.store
    get = store.get

    def counted(key: str) -> bytes:
        value: bytes = get(key)
        if not key.startswith(("test/node/", "test/link/")):  # which node 0 reads
            read.append(len(value))
        return value

    monkeypatch.setattr(store, "get", counted)
    monkeypatch.setattr(
        protocol,
        "talk",
        lambda me, other, *_: NodeLink(
            source=me, target=other, outcome="ok", latency_seconds=1e-4, bytes_per_second=1e9
        ),
    )
    assert job.run().links.missing == ()
    for thread in job.threads:
        thread.join(SECONDS)
    assert [*job.followed.values()] == [True] * (nodes - 1)
    return sum(read)


def test_what_node_0_says_grows_with_the_nodes_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: each node read where all others listen, 157 MB for 512 nodes."""
    few, many = 20, 80
    growth = bytes_told(many, monkeypatch) / bytes_told(few, monkeypatch)
    assert growth < 1.5 * many / few
