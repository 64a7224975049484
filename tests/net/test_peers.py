"""A peer that lies, is of another version or sends garbage is named, and costs only itself."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpdoctor.evidence.links import NodeLink
from ddpdoctor.net import protocol
from ddpdoctor.net.group_answers import GroupAnswer, GroupAnswers, NcclAnswer, groups_of, tries_of
from ddpdoctor.net.introductions import PROTOCOL, Introductions
from ddpdoctor.net.protocol import RoundAnswers, introduce
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.transport.peer_message import MOST_BYTES, PeerError, decoded
from tests.free_port import free_port
from tests.net.test_protocol import SECONDS, Job, MemoryStore, _Node, ends

DEEP = "[" * 100_000


class LiarJob(Job):
    """Nodes 0 and 1, and one more for each of `lies`, which replaces its messages under keys that start with `where`."""

    def __init__(self, where: str, lies: Sequence[Any]) -> None:
        super().__init__(2 + len(lies), tuple(range(2 + len(lies))))
        self._where, self._lies = where, lies

    def _node(self, place: int, number: int, before: Any) -> None:
        if number < 2:
            super()._node(place, number, before)
            return
        honest, where, lie = self.messages, self._where, self._lies[number - 2]

        class Lying(Messages):
            def say(self, key: str, value: Any) -> None:
                if key.startswith(where):
                    honest.store.set(f"{honest.prefix}/{key}", lie(value) if callable(lie) else lie)
                else:
                    honest.say(key, value)

        with _Node(self, place, number) as me:
            messages = Lying(honest.store, honest.prefix)
            introduce(messages, me.said)
            protocol.follow(messages, me.said, me.keys, until=time.monotonic() + SECONDS)


def without(name: str) -> Any:
    return lambda value: json.dumps({key: each for key, each in value.items() if key != name})


def having(**changes: Any) -> Any:
    return lambda value: json.dumps({**value, **changes})


def test_introductions_that_lie_are_named_and_the_others_are_measured() -> None:
    lies = {
        "its message node/2/1 cannot be used: JSON is malformed": "not JSON",
        "its message node/3/1 cannot be used": DEEP,
        "node 4 (no host name, ?:?) runs another version of ddpdoctor: unknown": "[]",
        "runs another version of ddpdoctor: 1.0, this node": having(protocol=None, release="1.0"),
        "runs another version of ddpdoctor: 9.9, this node": having(protocol="ddpdoc/9", release="9.9"),
        "at `$.release`": having(release=["x"]),
        "node 8 (host-8, 127.0.0.1:1000000000) sent facts that cannot be used": having(port=10**9),
        "node 9 (host-9, 127.0.0.1:22) sent facts that cannot be used: its introduction: Expected `int`": having(
            port="22"
        ),
        "'; rm -rf /' does not appear to be an IPv4 or IPv6 address": having(address="; rm -rf /"),
        "at `$.host`": having(host="h" * 5000),
        "it says that it is node 0": having(node=0),
        "at `$.nodes`": having(nodes=10**12),
        "its public number is not one of the group": having(public="1"),
        "it has facts of an unknown kind, Wonder": having(facts={"Wonder": {}}),
        "network interfaces: Expected `str`, got `int` - at `$.hostname`": having(facts={"Network": {"hostname": 5}}),
        "at `$.facts`": having(facts=5),
        "missing required field `pid`": without("pid"),
        "node 19 (": json.dumps({"protocol": PROTOCOL, "host": 10**400, "port": [], "address": {}}),
    }
    gathered = LiarJob("node/", [*lies.values()]).run()
    assert ends(gathered) == {(0, 1), (1, 0)}
    assert gathered.links.missing == tuple(range(2, 2 + len(lies)))
    assert len(gathered.left_out) == len(lies)
    for why in lies:
        assert [said for said in gathered.left_out if why in said], (why, gathered.left_out)


def test_measurements_that_lie_are_named_and_the_others_go_on() -> None:
    lies = {
        "its message link/": "garbage",
        "it reports the link from 0 to": having(source=0),
        "it reports the link from 4 to 1000": having(target=1000),
        "Invalid enum value 'splendid'": having(outcome="splendid"),
        "its latency is -1.0": having(latency_seconds=-1.0),
        "at `$.detail`": having(detail=["x"] * 1000),
    }
    gathered = LiarJob("link/", [*lies.values()]).run()
    assert {*permutations((0, 1), 2)} <= ends(gathered)
    assert gathered.links.lost == ()
    assert len(gathered.left_out) == len(lies)
    for number, why in enumerate(lies, start=2):
        (said,) = (each for each in gathered.left_out if each.startswith(f"node {number} (host-{number}, 127.0.0.1:"))
        assert "was left out: " in said
        assert why in said


def test_the_healthy_job_leaves_nobody_out() -> None:
    gathered: RoundAnswers = Job(3, (0, 1, 2)).run()
    assert gathered.left_out == ()
    assert ends(gathered) == {*permutations(range(3), 2)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(
    said=st.one_of(
        st.binary(max_size=200),
        JSON.map(lambda value: json.dumps(value).encode()),
        st.tuples(st.sampled_from(["node", "host", "address", "port", "public", "facts", "pid"]), JSON).map(
            lambda change: json.dumps({"protocol": PROTOCOL, "node": 1, change[0]: change[1]}).encode()
        ),
    )
)
def test_random_messages_end_nobody(said: bytes) -> None:
    """Every message that node 0 reads, as any bytes: it is used, or refused with a reason."""
    store = MemoryStore()
    store._values.update(
        {f"test/{key}/1": said for key in ("link", "grouped", "nccl")} | {"test/node/1/1": said}  # type: ignore[misc]
    )
    store.get = lambda key: store._values[key]  # type: ignore[method-assign,assignment,return-value]
    messages = Messages(store, "test")
    come = Introductions(messages, 2)
    assert come.look(1) == []
    assert list(come.left_out) == [1]
    answers = GroupAnswers(messages, {})
    for key, kind in (("link", NodeLink), ("grouped", tuple[GroupAnswer, ...]), ("nccl", NcclAnswer)):
        answers.of([1], key, kind, until=0.0)
    assert all(text.isascii() or text for text in answers.wrong.values())


def test_answers_count_for_the_node_that_gave_them_alone() -> None:
    tried = NcclAnswer(host="a", skipped="", tries=())
    lying = {
        "host": "b",
        "skipped": "",
        "tries": [{"node": 0, "host": "a", "gpus": 8, "transport": "NET", "outcome": "hung"}],
    }
    found = decoded(json.dumps(lying).encode(), NcclAnswer)
    assert tries_of({0: tried, 1: found}).tries == ()
    ready = GroupAnswer(ready=True)
    done = GroupAnswer(nodes=(0, 1), seconds=0.1)
    groups = groups_of([0, 1], {0: (ready, done), 1: (ready, done)})
    assert [group.works for group in groups.groups] == [True]
    assert groups_of([0, 1], {0: (ready, done)}).groups == ()


def test_a_message_of_any_size_is_refused_before_it_is_read() -> None:
    with pytest.raises(PeerError, match="bytes, more than"):
        decoded(b" " * (MOST_BYTES + 1), dict)


def test_node_0_that_cannot_be_followed_is_no_crash() -> None:
    """The others hear why; they do not follow a plan that is none."""
    job = Job(2, (0, 1))
    store = job.messages.store
    with _Node(job, 1, 1) as me:
        for plan in ('{"expected": -1}', "[]", DEEP):
            store.set("test/plan", plan)
            with pytest.raises(PeerError, match="plan"):
                protocol.follow(job.messages, me.said, me.keys, until=time.monotonic() + 5)
        store.set("test/plan", '{"expected": 2}')
        good = {"round": 1, "partner": 5, "address": "127.0.0.1", "port": 1, "public": "2"}
        for turn in (json.dumps(good | {"port": 70000}), '"later"', "[[1, 5]]", DEEP):
            store.set("test/turn/1/1", turn)
            with pytest.raises(PeerError, match="turn/1/1"):
                protocol.follow(job.messages, me.said, me.keys, until=time.monotonic() + 5)
        for wrong in (
            {"partner": 1},
            {"public": "0"},
        ):  # itself, and a number from which anybody could calculate the key
            store.set("test/turn/1/1", json.dumps(good | wrong))
            store.set("test/turn/1/2", '"over"')
            with contextlib.suppress(PeerError):
                assert protocol.follow(job.messages, me.said, me.keys, until=time.monotonic() + 20)


def test_a_node_without_turns_hears_it_at_once() -> None:
    """A node that node 0 left out, and one whose number is not below the number of nodes that node 0 expects."""
    job = Job(2, (0, 1))
    job.messages.say("plan", {"expected": 2})
    job.messages.say("turn/1/1", "left out")
    for number in (1, 2):
        with _Node(job, number, number) as me:
            assert not protocol.follow(job.messages, me.said, me.keys, until=time.monotonic() + SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_job_with_a_peer_that_lies_ends_with_the_others_measured(tmp_path: Path) -> None:
    """Two nodes of the command itself, and a third program that talks to their store."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "ddpdoctor",
        "net",
        "--nnodes",
        "3",
        "--master-addr",
        "127.0.0.1",
        "--deadline",
        "90",
    ]
    command += ["--master-port", str(port), "--format", "json", "--node-rank"]
    nodes = [
        subprocess.Popen([*command, number], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        for number in ("0", "1")
    ]
    try:
        _lie_to(port)
        said, errors = nodes[0].communicate(timeout=200)
        nodes[1].communicate(timeout=100)
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    report = json.loads(said)
    assert nodes[0].returncode in {1, 3}, errors
    assert any("node 2 (liar, 10.9.8.7:99999) sent facts that cannot be used" in why for why in report["undecided"])
    directions = report["measured"]["links"]["directions"]
    assert {(each["source"], each["target"], each["outcome"]) for each in directions} == {(0, 1, "ok"), (1, 0, "ok")}


def _lie_to(port: int) -> None:
    """Introduce a third node with an impossible port, once there is a store."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", port, None, False, timedelta(seconds=120))
    store.set(
        "ddpdoctor/net/0/0/node/2/1",
        json.dumps({"protocol": PROTOCOL, "node": 2, "host": "liar", "address": "10.9.8.7", "port": 99999}),
    )
