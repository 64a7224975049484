"""How ranks meet: each host's ranks hand what they found to one of them, it to rank 0's store; clocks are compared on the way."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import HashStore, TCPStore

from ddpdoctor.transport import rank_0
from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.facts import GatheredFacts, encoded_parts, parts_of
from ddpdoctor.transport.host_relay import Relay, RelayMember
from ddpdoctor.transport.rank_0 import Gathered, _answer, collect, compare_clocks, lead, let_go
from ddpdoctor.transport.store import own_part, put
from tests.free_port import free_port
from tests.simulated_launch import SimulatedLaunch, simulated

PROBE = Path(__file__).parents[2] / "probes" / "env_gather.py"
FACTS = encoded_parts(parts_of((), (), ()))
PATIENCE_SECONDS = 120.0
pytestmark = pytest.mark.timeout(300)


def who(rank: int, *, clock: str = "boot-a", pid: int = 7) -> ProcessIdentity:
    return ProcessIdentity(rank=rank, world_size=2, host=f"host-{clock}", pid=pid, clock=clock)


def member(one: ProcessIdentity) -> RelayMember:
    until = time.monotonic() + PATIENCE_SECONDS
    return RelayMember(who=one, parts=lambda: {"Limits": [b"{}"]}, join_until=until, leave_until=until)


def send(store: HashStore, message: bytes) -> None:
    put(store, f"bundle/{store.add('bundles', 1)}", message)


def with_rank_0() -> Gathered:
    own, gathered = Bundle(), Gathered()
    own.add(who(0), {"Limits": [b"{}"]})
    gathered.merge(own)
    return gathered


def heard(store: HashStore, *, seconds: float = PATIENCE_SECONDS) -> Gathered:
    gathered = with_rank_0()
    collect(store, gathered, 2, until=time.monotonic() + seconds, on_change=lambda _: None)
    return gathered


@pytest.mark.parametrize("clock", ["boot-a", "boot-b"])
def test_the_clock_of_another_machine_is_compared_within_its_error(clock: str) -> None:
    """Ranks of one machine share its clock, which is compared with nothing."""
    store = HashStore()
    leading = threading.Thread(target=lead, args=(Relay(None), member(who(1, clock=clock)), lambda: store), daemon=True)
    leading.start()
    gathered = heard(store)
    offsets = compare_clocks(store, gathered, who(0))
    let_go(store, gathered)
    leading.join(timeout=PATIENCE_SECONDS)
    assert not leading.is_alive()
    assert gathered.bundle.complete(who(1, clock=clock))
    assert [*offsets] == [name for name in [clock] if name != "boot-a"]
    assert all(abs(each.ahead_seconds) <= each.error_seconds + 1e-6 for each in offsets.values())


def test_all_hosts_are_asked_for_their_clock_at_once() -> None:
    """The first one answers when the others have been compared; one after the other, they would never be asked."""
    store = HashStore()
    gathered = with_leaders(4)
    others = [threading.Thread(target=_answer, args=(store, number, soon()), daemon=True) for number in (2, 3, 4)]

    def first() -> None:
        for other in others:
            other.join(timeout=PATIENCE_SECONDS)
        _answer(store, 1, soon())

    last = threading.Thread(target=first, daemon=True)
    for thread in (*others, last):
        thread.start()
    store.set("turn/2", "clock")

    def let_others_go() -> None:
        for number in (2, 3, 4):
            store.wait([f"pong/{number}/1"], timedelta(seconds=PATIENCE_SECONDS))
            store.set(f"turn/{number}", "leave")

    threading.Thread(target=let_others_go, daemon=True).start()
    assert {*compare_clocks(store, gathered, who(0))} == {"boot-1", "boot-2", "boot-3", "boot-4"}
    store.set("turn/1", "leave")
    last.join(timeout=PATIENCE_SECONDS)
    assert not last.is_alive()


@pytest.mark.parametrize(
    "lie", ["", "late", "no json", '{"ahead_seconds": "x"}'], ids=["nothing", "late", "text", "types"]
)
def test_a_host_that_lies_about_its_clock_or_says_nothing_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    monkeypatch.setattr(rank_0, "CLOCK_SECONDS", 1.0)
    store = HashStore()
    for ping in range(1 if lie == "late" else rank_0.PINGS + 1 if not lie else 0):
        store.set(f"ping/1/{ping}", "")
    if lie not in {"", "late"}:
        store.set("ping/1/0", lie)
    honest = threading.Thread(target=_answer, args=(store, 2, soon()), daemon=True)
    honest.start()
    assert [*compare_clocks(store, with_leaders(2), who(0))] == ["boot-2"]
    store.set("turn/2", "leave")
    honest.join(timeout=PATIENCE_SECONDS)
    assert not honest.is_alive()


def with_leaders(count: int) -> Gathered:
    gathered = with_rank_0()
    gathered.leaders.update({number: f"boot-{number}" for number in range(1, count + 1)})
    return gathered


def soon() -> float:
    return time.monotonic() + PATIENCE_SECONDS


def test_a_rank_that_came_and_told_nothing_is_kept_without_facts() -> None:
    store, bundle = HashStore(), Bundle()
    bundle.add(who(1))
    send(store, b"1\n" + bundle.encode())
    gathered = heard(store, seconds=0.5)
    assert [(each.rank, gathered.bundle.complete(each)) for each in gathered.bundle.accounts] == [(0, True), (1, False)]


def test_a_message_that_was_announced_and_never_came_delays_no_other() -> None:
    store, bundle = HashStore(), Bundle()
    store.add("bundles", 1)
    bundle.add(who(1), {"Limits": [b"{}"]})
    send(store, b"1\n" + bundle.encode())
    assert heard(store).bundle.complete(who(1))


@pytest.mark.parametrize("lie", [b"", b"1\nno bundle", b"1\n\x93\x02\x90\x90", b"\xff" * 100])
def test_a_leader_that_sends_something_else_costs_only_its_own_ranks(lie: bytes) -> None:
    store, bundle = HashStore(), Bundle()
    send(store, lie)
    bundle.add(who(1), {"Limits": [b"{}"]})
    send(store, b"2\n" + bundle.encode())
    gathered = heard(store)
    assert gathered.bundle.complete(who(1))
    assert len(gathered.unread) == 1


def test_of_two_processes_of_rank_0_the_one_that_serves_the_store_speaks(tmp_path: Path) -> None:
    """The other is ready first; did it speak, the store would be gone before it has said goodbye."""
    port = free_port()
    serving = claim_rank_0(tmp_path, "serving", port)
    store = TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60))
    second = claim_rank_0(tmp_path, "second", port)
    try:
        (tmp_path / "second.facts").write_bytes(FACTS)
        own_part(store, "env").wait(["bundle/1"], timedelta(seconds=60))
        (tmp_path / "serving.facts").write_bytes(FACTS)
        assert (serving.wait(60), second.wait(60)) == (0, 0)
    finally:
        for each in (serving, second):
            each.kill()
            each.wait(60)
    told = Bundle.decode(GatheredFacts.decode((tmp_path / "serving.out").read_bytes()).bundle)
    assert [each.rank for each in told.accounts] == [0, 0]
    assert not (tmp_path / "second.out").exists()


def claim_rank_0(folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            "sh", "-c", '"$@"; exit', "sh",  # a process of its own asks, as `ddpdoctor env` does
            sys.executable, str(PROBE), "--rank", "0", "--world-size", "2", "--host", "127.0.0.1", "--port", str(port),
            "--deadline", "5", "--facts", str(folder / f"{name}.facts"), "--out", str(folder / f"{name}.out"),
        ]
    )  # fmt: skip


def test_of_64_ranks_on_8_hosts_only_those_are_missing_whose_leader_died_or_lied() -> None:
    """The ranks beside a leader that dies elect another one; those beside one that lies cannot know it."""
    port = free_port()
    launch = SimulatedLaunch(
        world_size=64, per_host=8, port=port, deadline_seconds=PATIENCE_SECONDS, dying_leaders=(2,), lying_leaders=(5,)
    )
    store = own_part(TCPStore("127.0.0.1", port, None, True, timedelta(seconds=60), wait_for_workers=False), "env")
    gathered = with_rank_0()

    def enough(bundle: Bundle) -> None:
        if len(told(bundle)) == 64 - 8 - 1 and gathered.unread:
            raise EnoughError

    with simulated(launch) as ranks:
        assert ranks.stdin is not None
        ranks.stdin.write("go\n")
        ranks.stdin.flush()
        with pytest.raises(EnoughError):
            collect(store, gathered, 64, until=time.monotonic() + PATIENCE_SECONDS, on_change=enough)
        let_go(store, gathered)
    dead = {*range(16, 24)} - told(gathered.bundle)
    assert len(dead) == 1
    assert told(gathered.bundle) == {*range(64)} - dead - {*range(40, 48)}
    bodies = {who.host: gathered.bundle.accounts[who].parts["Gpus"] for who in gathered.bundle.accounts if who.rank}
    assert len({*bodies.values()}) == len(bodies) == 7
    assert len(gathered.bundle.bodies) < 64 * 4


class EnoughError(Exception):
    """All has come that can come."""


def told(bundle: Bundle) -> set[int]:
    return {who.rank for who in bundle.accounts if bundle.complete(who)}
