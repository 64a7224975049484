"""`ddpdoctor net` on hosts made of network namespaces: each planted fault gets its code and its culprit, and no other."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from tests.links.namespaces import PORT, Hosts, Said, said_by, wait_for, why_not

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can"),
    pytest.mark.timeout(400),
]

SYN = ("-p", "tcp", "--syn")
DROP = ("-j", "DROP")
RESET = ("-j", "REJECT", "--reject-with", "tcp-reset")


@pytest.fixture(scope="module")
def three() -> Iterator[Hosts]:
    with Hosts(3) as hosts:
        yield hosts


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """The hosts, as they were made once the test is over."""
    made: Hosts = request.getfixturevalue(request.param)
    yield made
    for number in range(made.count):
        made.restore(number)


THREE = pytest.mark.parametrize("hosts", [pytest.param("three", id="3")], indirect=True)
SLOW_THREE = pytest.mark.parametrize("hosts", [pytest.param("three", id="3", marks=pytest.mark.slow)], indirect=True)


def culprits(said: Said) -> dict[str, list[int]]:
    """The ranks of each headline."""
    return {
        finding["code"]: finding["ranks"]
        for finding in said.report["findings"]
        if finding["explained_by"] is None and finding["severity"] != "info"
    }


def layers(said: Said) -> dict[str, str]:
    """The verdict of each layer."""
    return {layer["name"]: layer["verdict"] for layer in said.report["measured"]["layers"]}


def quiet(said: dict[int, Said], *numbers: int) -> bool:
    """Whether these hosts left the word to node 0, or ended by themselves."""
    return all(not said[number].stdout.strip() for number in numbers)


def admit(hosts: Hosts, number: int, *otherwise: str) -> None:
    """A firewall on a host that lets MASTER_PORT in, and does `otherwise` to new connections to other ports."""
    hosts.on(number, "iptables", "-A", "INPUT", "-i", "eth0", *SYN, "!", "--dport", str(PORT), *otherwise)


@THREE
def test_healthy_hosts_get_silence_and_a_whole_matrix(hosts: Hosts) -> None:
    said = hosts.net()

    assert culprits(said[0]) == {}, said[0].stdout
    assert [each.code for each in said.values()] == [0] * hosts.count
    assert quiet(said, *range(1, hosts.count))
    directions = said[0].report["measured"]["links"]["directions"]
    assert {each["outcome"] for each in directions} == {"ok"}
    assert len(directions) == hosts.count * (hosts.count - 1)
    verdicts = layers(said[0])
    assert verdicts.pop("NCCL") == "skipped"
    assert set(verdicts.values()) == {"ok"}


@THREE
def test_a_hostname_that_means_loopback(hosts: Hosts) -> None:
    hosts.names(1, node1="127.0.1.1")
    said = hosts.net()
    assert culprits(said[0]) == {"DDP209": [1]}, said[0].stdout
    assert said[0].code == 1


@SLOW_THREE
def test_a_direction_that_is_dropped(hosts: Hosts) -> None:
    hosts.on(2, "iptables", "-A", "INPUT", "-s", hosts.address(1), *SYN, *DROP)
    said = hosts.net(deadline=100)
    assert culprits(said[0]) == {"DDP212": [1, 2]}, said[0].stdout
    assert "node1 to node2" in said[0].report["findings"][0]["message"]
    assert "in this direction only" in said[0].report["findings"][0]["message"]
    verdicts = layers(said[0])
    assert verdicts["connections between nodes"] == "failed"
    assert verdicts["gloo, all nodes"] == "skipped"


@THREE
def test_names_addresses_and_absent_hosts(hosts: Hosts) -> None:
    """Node 1 does not know the master's name, the last node takes another host for it."""
    last = hosts.count - 1
    said = hosts.net(master={1: "no-such-host", last: "node1"}, deadline=12)

    assert culprits(said[1]) == {"DDP201": [1]}, said[1].stdout
    assert culprits(said[last]) == {"DDP203": [last]}, said[last].stdout
    assert culprits(said[0]) == {"DDP205": [1, last]}, said[0].stdout
    assert (said[0].code, said[1].code, said[last].code) == (3, 1, 1)
    assert "nothing listens there" in said[last].report["findings"][0]["message"]


@THREE
def test_a_host_that_is_down_and_an_agent_that_was_never_started(hosts: Hosts) -> None:
    """The last host has no link. All but it and host 1 were started: with three hosts, host 0 alone remains."""
    last = hosts.count - 1
    hosts.on(last, "ip", "link", "set", "eth0", "down")
    said = hosts.net(only=(0, *range(2, hosts.count)), deadline=12)
    assert culprits(said[0]) == {"DDP205": [1, last]}, said[0].stdout
    assert culprits(said[last]) == {"DDP204": [last]}, said[last].stdout
    assert (said[0].code, said[last].code) == (3, 1)
    assert said[0].report["undecided"] == [f"2 of {hosts.count} nodes did not come"]


@SLOW_THREE
def test_a_port_held_by_a_web_server(hosts: Hosts) -> None:
    server = hosts.start(0, sys.executable, "-m", "http.server", str(PORT))
    try:
        wait_for(lambda: f":{PORT}" in hosts.on(0, "ss", "-ltn"))
        said = hosts.net(only=(0, 1), deadline=12)
    finally:
        server.kill()
        server.communicate()

    assert culprits(said[0]) == {"DDP202": [0]}, said[0].stdout
    assert f"http.server {PORT}" in said[0].report["findings"][0]["message"]
    assert culprits(said[1]) == {"DDP216": [1]}, said[1].stdout
    assert "HTTP" in said[1].report["findings"][0]["message"]


@SLOW_THREE
def test_a_firewall_that_resets_what_is_not_for_the_master_port(hosts: Hosts) -> None:
    admit(hosts, 1, *RESET)
    said = hosts.net()
    assert culprits(said[0]) == {"DDP215": [1]}, said[0].stdout
    assert "refused" in said[0].report["findings"][0]["message"]


@THREE
def test_two_nodes_with_one_node_rank(hosts: Hosts) -> None:
    said = hosts.net(node_rank={2: 1}, deadline=40)
    assert culprits(said[0]) == {"DDP206": [1]}, said[0].stdout
    (finding,) = [each for each in said[0].report["findings"] if each["code"] == "DDP206"]
    assert sorted(finding["hosts"]) == ["node1", "node2"]


@SLOW_THREE
def test_a_probe_that_was_started_twice_on_one_host(hosts: Hosts) -> None:
    first = [hosts.start(number, *hosts.net_command(number)) for number in (0, 1, 1)]
    wait_for(lambda: hosts.on(1, "ss", "-ltn").count("LISTEN") == 2)
    time.sleep(1.0)  # from a listener to its word that it is there
    later = [hosts.start(number, *hosts.net_command(number)) for number in range(2, hosts.count)]
    said = [said_by(process, 120) for process in (*first, *later)]
    assert [each.code for each in said] == [1] + [0] * hosts.count
    assert culprits(said[0]) == {"DDP206": [1]}, said[0].stdout
    assert said[0].report["measured"]["links"]["missing"] == []


@SLOW_THREE
def test_an_interface_variable_in_the_syntax_of_nccl(hosts: Hosts) -> None:
    said = hosts.net(env={1: {"GLOO_SOCKET_IFNAME": "^lo"}})
    assert culprits(said[0]) == {"DDP211": [1]}, said[0].stdout
    assert said[0].report["findings"][0]["remedy"] == "export GLOO_SOCKET_IFNAME=eth0"


@THREE
def test_a_bridge_that_all_hosts_have(hosts: Hosts) -> None:
    """As docker makes one, with one address everywhere; the hosts' own names mean it."""
    for number in range(hosts.count):
        _docker_bridge(hosts, number)
        hosts.names(number, **{f"node{number}": "172.17.0.1"})
    said = hosts.net(master={0: hosts.address(0)})
    headlines = culprits(said[0])
    assert list(headlines) == ["DDP170"], said[0].stdout
    (finding,) = [each for each in said[0].report["findings"] if each["code"] == "DDP170"]
    assert finding["hosts"] == [f"node{number}" for number in range(hosts.count)]


@SLOW_THREE
def test_hosts_that_speak_ipv6_only(hosts: Hosts) -> None:
    for number in range(hosts.count):
        hosts.on(number, "ip", "addr", "del", f"{hosts.address(number)}/24", "dev", "eth0")
        hosts.on(number, "ip", "addr", "add", f"fd77::{number + 1}/64", "dev", "eth0", "nodad")
        hosts.names(number, **{f"node{other}": f"fd77::{other + 1}" for other in range(hosts.count)})
    try:
        said = hosts.net()
    finally:
        for number in range(hosts.count):
            hosts.on(number, "ip", "addr", "del", f"fd77::{number + 1}/64", "dev", "eth0")
            hosts.on(number, "ip", "addr", "add", f"{hosts.address(number)}/24", "dev", "eth0")
    assert culprits(said[0]) == {}, said[0].stdout
    assert said[0].report["measured"]["links"]["nodes"][1]["address"] == "fd77::2"


@SLOW_THREE
def test_a_link_that_goes_down_in_the_middle(hosts: Hosts) -> None:
    """And a process that dies there: both fell silent after they had joined."""
    said = hosts.net_while(lambda: hosts.on(2, "ip", "link", "set", "eth0", "down"), on=2, deadline=40)
    assert culprits(said[0]).get("DDP214") == [2], said[0].stdout
    assert set(culprits(said[0])) == {"DDP214"}
    assert (said[0].code, said[2].code) == (1, 3)


@SLOW_THREE
def test_a_probe_that_is_killed_in_the_middle(hosts: Hosts) -> None:
    said = hosts.net_while(lambda: [os.kill(pid, signal.SIGKILL) for pid in hosts.pids(2)], on=2, deadline=60)
    assert culprits(said[0]) == {"DDP214": [2]}, said[0].stdout
    assert "fell silent" in said[0].report["findings"][0]["message"]


@SLOW_THREE
def test_torchrun_starts_it_as_it_starts_the_job(hosts: Hosts) -> None:
    """Two ranks a node, one of which works; healthy first, then a host whose name means loopback."""
    command = ("-m", "ddpdoctor", "net", "--format", "json")
    said = hosts.torchrun(*command, nproc=2)
    assert [each.code for each in said.values()] == [0] * hosts.count, said[0].stderr
    assert culprits(said[0]) == {}
    assert quiet(said, *range(1, hosts.count))

    hosts.names(1, node1="127.0.1.1")
    said = hosts.torchrun(*command, nproc=2)
    assert culprits(said[0]) == {"DDP209": [1]}, said[0].stdout


@SLOW_THREE
def test_env_under_torchrun_names_the_variable_that_one_host_sets(hosts: Hosts) -> None:
    said = hosts.torchrun("-m", "ddpdoctor", "env", "--format", "json", env={1: {"NCCL_ALGO": "Tree"}})
    assert culprits(said[0]).get("DDP118") == [1], said[0].stdout


def test_nothing_is_left_behind(three: Hosts) -> None:
    for number in range(three.count):
        assert three.pids(number) == []
        assert "LISTEN" not in three.on(number, "ss", "-ltn").partition("\n")[2]


def _docker_bridge(hosts: Hosts, number: int) -> None:
    hosts.on(number, "ip", "link", "add", "docker0", "type", "bridge")
    hosts.on(number, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    hosts.on(number, "ip", "link", "set", "docker0", "up")
