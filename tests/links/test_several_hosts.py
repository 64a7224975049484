"""`ddpdoctor net` on hosts made of network namespaces: each planted fault gets its code and its culprit, and no other."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.links.namespaces import PORT, Hosts, Said, why_not

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can"),
    pytest.mark.timeout(400),
]

SYN = ("-p", "tcp", "--syn")


@pytest.fixture(scope="module")
def three() -> Iterator[Hosts]:
    with Hosts(3) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def five() -> Iterator[Hosts]:
    with Hosts(5) as hosts:
        yield hosts


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """Three or five hosts, as they were made once the test is over."""
    made: Hosts = request.getfixturevalue(request.param)
    yield made
    for number in range(made.count):
        made.on(number, "iptables", "-F")
        made.names(number)


BOTH = [pytest.param("three", id="3"), pytest.param("five", id="5", marks=pytest.mark.slow)]
SLOW = [pytest.param("three", id="3", marks=pytest.mark.slow), pytest.param("five", id="5", marks=pytest.mark.slow)]


def culprits(said: Said) -> dict[str, list[int]]:
    """The ranks of each headline."""
    return {
        finding["code"]: finding["ranks"]
        for finding in said.report["findings"]
        if finding["explained_by"] is None and finding["severity"] != "info"
    }


def quiet(said: dict[int, Said], *numbers: int) -> bool:
    """Whether these hosts left the word to node 0, or ended by themselves."""
    return all(not said[number].stdout.strip() for number in numbers)


@pytest.mark.parametrize("hosts", BOTH, indirect=True)
def test_healthy_hosts_get_silence_and_a_whole_matrix(hosts: Hosts) -> None:
    said = hosts.net()

    assert culprits(said[0]) == {}, said[0].stdout
    assert [each.code for each in said.values()] == [0] * hosts.count
    assert quiet(said, *range(1, hosts.count))


@pytest.mark.parametrize("hosts", BOTH, indirect=True)
def test_a_hostname_that_means_loopback(hosts: Hosts) -> None:
    hosts.names(1, node1="127.0.1.1")
    said = hosts.net()
    assert culprits(said[0]) == {"DDP209": [1]}, said[0].stdout
    assert said[0].code == 1


@pytest.mark.parametrize("hosts", BOTH, indirect=True)
def test_a_direction_that_is_dropped(hosts: Hosts) -> None:
    hosts.on(2, "iptables", "-A", "INPUT", "-s", hosts.address(1), *SYN, "-j", "DROP")
    said = hosts.net(deadline=100)
    assert culprits(said[0]) == {"DDP212": [1, 2]}, said[0].stdout
    assert "node1 to node2" in said[0].report["findings"][0]["message"]
    assert "in this direction only" in said[0].report["findings"][0]["message"]


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_only_master_port_is_open_everywhere(hosts: Hosts) -> None:
    for number in range(hosts.count):
        hosts.on(number, "iptables", "-A", "INPUT", "-i", "eth0", *SYN, "!", "--dport", str(PORT), "-j", "DROP")
    said = hosts.net(deadline=150)
    assert culprits(said[0]) == {"DDP215": [*range(hosts.count)]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
@pytest.mark.parametrize("verdict", ["DROP", "REJECT"])
def test_one_host_admits_nobody(hosts: Hosts, verdict: str) -> None:
    end = ["-j", verdict] + (["--reject-with", "tcp-reset"] if verdict == "REJECT" else [])
    hosts.on(2, "iptables", "-A", "INPUT", "-i", "eth0", *SYN, *end)
    said = hosts.net(deadline=100)
    assert culprits(said[0]) == {"DDP215": [2]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_a_host_that_only_reaches_the_master_port(hosts: Hosts) -> None:
    for way, side in (("INPUT", "--sport"), ("OUTPUT", "--dport")):
        hosts.on(1, "iptables", "-A", way, "-p", "tcp", side, str(PORT), "-j", "ACCEPT")
        hosts.on(1, "iptables", "-A", way, "-p", "tcp", "-j", "DROP")
    said = hosts.net(deadline=100)
    assert culprits(said[0]) == {"DDP214": [1]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_a_wrong_master_addr_on_one_host(hosts: Hosts) -> None:
    said = hosts.net(master={1: "node2"}, deadline=40)
    assert culprits(said[1]) == {"DDP203": [1]}, said[1].stdout
    assert culprits(said[0]) == {"DDP205": [1]}, said[0].stdout
    assert said[0].code == 3


@pytest.mark.parametrize("hosts", BOTH, indirect=True)
def test_names_ports_and_absent_hosts(hosts: Hosts) -> None:
    """Node 1 does not know the master's name, node 2 was never started; an HTTP server sits on the port later."""
    said = hosts.net(only=(0, 1), master={1: "no-such-host"}, deadline=12)

    assert culprits(said[1]) == {"DDP201": [1]}, said[1].stdout
    assert culprits(said[0]) == {"DDP205": [*range(1, hosts.count)]}, said[0].stdout
    assert (said[0].code, said[1].code) == (3, 1)


@pytest.mark.parametrize("hosts", BOTH, indirect=True)
def test_a_port_held_by_a_web_server(hosts: Hosts) -> None:
    server = hosts.start(0, sys.executable, "-m", "http.server", str(PORT))
    try:
        _wait_for(lambda: f":{PORT}" in hosts.on(0, "ss", "-ltn"))
        said = hosts.net(only=(0, 1), deadline=12)
    finally:
        server.kill()
        server.communicate()

    assert culprits(said[0]) == {"DDP202": [0]}, said[0].stdout
    assert f"http.server {PORT}" in said[0].report["findings"][0]["message"]
    assert culprits(said[1]) == {"DDP216": [1]}, said[1].stdout
    assert "HTTP" in said[1].report["findings"][0]["message"]


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_two_hosts_with_one_node_rank(hosts: Hosts) -> None:
    said = hosts.net(node_rank={2: 1}, deadline=100)
    assert culprits(said[0]) == {"DDP206": [1]}, said[0].stdout
    assert set(said[0].report["findings"][0]["hosts"]) == {"node1", "node2"}


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_nccl_syntax_given_to_gloo(hosts: Hosts) -> None:
    said = hosts.net(env={1: {"GLOO_SOCKET_IFNAME": "^lo"}})
    assert culprits(said[0]) == {"DDP211": [1]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_a_bridge_address_that_all_hosts_share(hosts: Hosts) -> None:
    for number in range(hosts.count):
        hosts.on(number, "ip", "link", "add", "docker0", "type", "bridge")
        hosts.on(number, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
        hosts.on(number, "ip", "link", "set", "docker0", "up")
        hosts.names(number, **{f"node{number}": "172.17.0.1", "master": hosts.address(0)})
    try:
        said = hosts.net(master=dict.fromkeys(range(hosts.count), "master"), deadline=100)
    finally:
        for number in range(hosts.count):
            hosts.on(number, "ip", "link", "del", "docker0")
    assert list(culprits(said[0])) == ["DDP170"], said[0].stdout
    assert said[0].report["findings"][0]["hosts"] == [f"node{number}" for number in range(hosts.count)]


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_a_link_of_100_mbit(hosts: Hosts) -> None:
    hosts.on(
        2, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "32kbit", "latency", "400ms"
    )
    try:
        said = hosts.net(deadline=100)
    finally:
        hosts.on(2, "tc", "qdisc", "del", "dev", "eth0", "root")
    assert culprits(said[0]) == {"DDP213": [2]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_packets_above_a_size_vanish(hosts: Hosts) -> None:
    hosts.on(1, "iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "!", "--sport", str(PORT), "-m", "length",
             "--length", "1000:65535", "-j", "DROP")  # fmt: skip
    said = hosts.net(deadline=150)
    assert culprits(said[0]) == {"DDP220": [1]}, said[0].stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_a_node_that_dies_in_a_round(hosts: Hosts) -> None:
    """Node 2 is stopped for good while it waits for its turn: it is named, and the others' links are measured."""
    processes = {
        number: hosts.start(
            number, sys.executable, "-m", "ddpdoctor", "net", "--nnodes", str(hosts.count), "--node-rank", str(number),
            "--master-addr", "node0", "--deadline", "60", "--format", "json",
        )
        for number in range(hosts.count)
    }  # fmt: skip
    _wait_for(lambda: "net_node" in _commands(hosts, 2) and f":{PORT}" in hosts.on(2, "ss", "-tn"))
    for pid in hosts.pids(2):
        os.kill(pid, signal.SIGKILL)
    stdout, _ = processes[0].communicate(timeout=120)
    found = culprits(Said(code=processes[0].returncode, stdout=stdout, stderr=""))
    assert found in ({"DDP214": [2]}, {"DDP205": [2]}), stdout


@pytest.mark.parametrize("hosts", SLOW, indirect=True)
def test_under_torchrun(hosts: Hosts) -> None:
    said = hosts.torchrun("-m", "ddpdoctor", "net", "--format", "json")
    assert culprits(said[0]) == {}, said[0].stdout
    assert [each.code for each in said.values()] == [0] * hosts.count


def test_nothing_is_left_behind(three: Hosts) -> None:
    for number in range(three.count):
        assert three.pids(number) == []
        assert "LISTEN" not in three.on(number, "ss", "-ltn").partition("\n")[2]


def _commands(hosts: Hosts, number: int) -> str:
    found = []
    for pid in hosts.pids(number):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
    return " ".join(found)


def _wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
