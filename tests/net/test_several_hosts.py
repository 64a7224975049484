"""`ddpdoctor net` on hosts made of network namespaces: each planted fault gets its code and its culprit, and no other."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.net.namespaces import (
    BOTH,
    HOUR_AHEAD,
    LONGER,
    PORT,
    RARE,
    Hosts,
    Said,
    culprits,
    said_by,
    why_not,
)
from tests.waiting import within

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can"),
    pytest.mark.timeout(400),
]

SYN = ("-p", "tcp", "--syn")
DROP = ("-j", "DROP")
RESET = ("-j", "REJECT", "--reject-with", "tcp-reset")
BUSY = """
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
server = socket.create_server(("", 0), backlog=2000)
pairs = [(socket.create_connection(("127.0.0.1", server.getsockname()[1])), server.accept()) for _ in range(2000)]
print(len(pairs), flush=True)
time.sleep(600)
"""


def layers(said: Said) -> dict[str, str]:
    """The verdict of each layer."""
    return {layer["name"]: layer["verdict"] for layer in said.report["measured"]["layers"]}


def quiet(said: dict[int, Said], *numbers: int) -> bool:
    """Whether these hosts left the word to node 0, or ended by themselves."""
    return all(not said[number].stdout.strip() for number in numbers)


def absence(hosts: Hosts) -> int:
    """A deadline for those who wait for somebody that never comes; five hosts start less close together than three."""
    return 12 if hosts.count == 3 else 60


def admit(hosts: Hosts, number: int, *otherwise: str) -> None:
    """A firewall on a host that lets MASTER_PORT in, and does `otherwise` to new connections to other ports."""
    hosts.on(number, "iptables", "-A", "INPUT", "-i", "eth0", *SYN, "!", "--dport", str(PORT), *otherwise)


@BOTH
def test_healthy_hosts_get_silence_and_a_whole_matrix(hosts: Hosts) -> None:
    said = hosts.net()

    assert culprits(said[0]) == {}, said[0].stdout
    assert [each.code for each in said.values()] == [0] * hosts.count
    assert quiet(said, *range(1, hosts.count))
    directions = said[0].report["measured"]["links"]["directions"]
    assert {each["outcome"] for each in directions} == {"ok"}
    assert len(directions) == hosts.count * (hosts.count - 1)
    verdicts = layers(said[0])
    assert {verdicts.pop(f"NCCL over {transport}") for transport in ("P2P", "SHM", "NET")} == {"skipped"}
    assert set(verdicts.values()) == {"ok"}


@BOTH
def test_a_hostname_that_means_loopback(hosts: Hosts) -> None:
    """A group of gloo fails of it in truth."""
    hosts.names(1, node1="127.0.1.1")
    said = hosts.net()
    assert culprits(said[0]) == {"DDP209": [1]}, said[0].stdout
    assert said[0].code == 1
    assert "failed" in {layers(said[0])["gloo, two neighbours"], layers(said[0])["gloo, all nodes"]}


@LONGER
def test_a_direction_that_is_dropped(hosts: Hosts) -> None:
    hosts.on(2, "iptables", "-A", "INPUT", "-s", hosts.address(1), *SYN, *DROP)
    said = hosts.net(deadline=100)
    assert culprits(said[0]) == {"DDP212": [1, 2]}, said[0].stdout
    assert "node1 to node2" in said[0].report["findings"][0]["message"]
    assert "in this direction only" in said[0].report["findings"][0]["message"]
    verdicts = layers(said[0])
    assert verdicts["connections between nodes"] == "failed"
    assert verdicts["gloo, all nodes"] == "skipped"


@BOTH
def test_names_addresses_and_absent_hosts(hosts: Hosts) -> None:
    """Node 1 does not know the master's name, the last node takes another host for it."""
    last = hosts.count - 1
    said = hosts.net(master={1: "no-such-host", last: "node1"}, deadline=absence(hosts))

    assert culprits(said[1]) == {"DDP201": [1]}, said[1].stdout
    assert culprits(said[last]) == {"DDP203": [last]}, said[last].stdout
    assert culprits(said[0]) == {"DDP205": [1, last]}, said[0].stdout
    assert (said[0].code, said[1].code, said[last].code) == (3, 1, 1)
    assert "nothing listens there" in said[last].report["findings"][0]["message"]


@RARE
def test_an_address_that_no_host_has(hosts: Hosts) -> None:
    said = hosts.net(master=dict.fromkeys(range(hosts.count), "192.168.77.99"), deadline=12)
    assert [culprits(each) for each in said.values()] == [{"DDP204": [number]} for number in said]


@BOTH
def test_a_host_that_is_down_and_an_agent_that_was_never_started(hosts: Hosts) -> None:
    """The last host has no link. All but it and host 1 were started: with three hosts, host 0 alone remains."""
    last = hosts.count - 1
    hosts.on(last, "ip", "link", "set", "eth0", "down")
    said = hosts.net(only=(0, *range(2, hosts.count)), deadline=absence(hosts))
    assert culprits(said[0]) == {"DDP205": [1, last]}, said[0].stdout
    assert culprits(said[last]) == {"DDP204": [last]}, said[last].stdout
    assert (said[0].code, said[last].code) == (3, 1)
    assert said[0].report["undecided"] == [f"2 of {hosts.count} nodes did not join"]


@LONGER
def test_a_port_held_by_a_web_server(hosts: Hosts) -> None:
    server = hosts.start(0, sys.executable, "-m", "http.server", str(PORT))
    try:
        assert within(lambda: f":{PORT}" in hosts.on(0, "ss", "-ltn"))
        said = hosts.net(only=(0, 1), deadline=12)
    finally:
        server.kill()
        server.communicate()

    assert culprits(said[0]) == {"DDP202": [0]}, said[0].stdout
    assert f"http.server {PORT}" in said[0].report["findings"][0]["message"]
    assert culprits(said[1]) == {"DDP216": [1]}, said[1].stdout
    assert "HTTP" in said[1].report["findings"][0]["message"]


@RARE
def test_only_the_master_port_is_open_everywhere(hosts: Hosts) -> None:
    for number in range(hosts.count):
        admit(hosts, number, *DROP)
    said = hosts.net(deadline=120)
    assert culprits(said[0]) == {"DDP215": [*range(hosts.count)]}, said[0].stdout


@LONGER
def test_a_firewall_that_resets_what_is_not_for_the_master_port(hosts: Hosts) -> None:
    admit(hosts, 1, *RESET)
    said = hosts.net()
    assert culprits(said[0]) == {"DDP215": [1]}, said[0].stdout
    assert "refused" in said[0].report["findings"][0]["message"]


@LONGER
def test_a_link_of_100_mbit(hosts: Hosts) -> None:
    hosts.narrow(2)
    said = hosts.net()
    assert culprits(said[0]) == {"DDP213": [2]}, said[0].stdout
    (finding,) = [each for each in said[0].report["findings"] if each["code"] == "DDP213"]
    assert finding["hosts"] == ["node2"]
    assert 20 < finding["measured"]["value"] * 8e-6 < 300


@BOTH
def test_two_nodes_with_one_node_rank(hosts: Hosts) -> None:
    said = hosts.net(node_rank={2: 1}, deadline=40)
    assert culprits(said[0]) == {"DDP206": [1]}, said[0].stdout
    (finding,) = [each for each in said[0].report["findings"] if each["code"] == "DDP206"]
    assert sorted(finding["hosts"]) == ["node1", "node2"]


@RARE
def test_a_probe_that_was_started_twice_on_one_host(hosts: Hosts) -> None:
    """The hosts after it have started, too, but reach node 0 only once both of its probes have: then they are expected."""
    later = range(2, hosts.count)
    for number in later:
        hosts.on(number, "iptables", "-A", "OUTPUT", *SYN, "--dport", str(PORT), *DROP)
    processes = [hosts.start(number, *hosts.net_command(number, deadline=120)) for number in (0, 1, 1, *later)]
    assert within(lambda: any(process.poll() is not None for process in processes[1:3]))  # the later one leaves at once
    for number in later:
        hosts.on(number, "iptables", "-F", "OUTPUT")
    said = [said_by(process, 180) for process in processes]
    assert [each.code for each in said] == [1] + [0] * hosts.count, said[-1].stdout
    assert culprits(said[0]) == {"DDP206": [1]}, said[0].stdout
    assert said[0].report["measured"]["links"]["missing"] == []


@RARE
def test_an_interface_variable_in_the_syntax_of_nccl(hosts: Hosts) -> None:
    said = hosts.net(env={1: {"GLOO_SOCKET_IFNAME": "^lo"}})
    assert culprits(said[0]) == {"DDP211": [1]}, said[0].stdout
    assert said[0].report["findings"][0]["remedy"] == "export GLOO_SOCKET_IFNAME=eth0"


@BOTH
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


@RARE
def test_a_bridge_that_nobody_uses_is_no_finding(hosts: Hosts) -> None:
    for number in range(hosts.count):
        _docker_bridge(hosts, number)
    assert culprits(hosts.net()[0]) == {}


@LONGER
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


@RARE
def test_names_with_dots_and_underscores(hosts: Hosts) -> None:
    """Of hosts and of the master."""
    called = {number: f"gpu_{number}.rack-1.example.org" for number in range(hosts.count)}
    for number in range(hosts.count):
        hosts.hostnames[number] = called[number]
        hosts.names(number, **{name: hosts.address(other) for other, name in called.items()})
    said = hosts.net(master=dict.fromkeys(range(hosts.count), called[0]))
    assert culprits(said[0]) == {}, said[0].stdout
    assert [node["host"] for node in said[0].report["measured"]["links"]["nodes"]] == list(called.values())


@RARE
def test_two_thousand_connections_a_clock_an_hour_ahead_and_no_privileges(hosts: Hosts, tmp_path: Path) -> None:
    """One of them a host: none is a fault of the network, and none keeps a probe from its work."""
    (tmp_path / "sitecustomize.py").write_text(HOUR_AHEAD)
    busy = hosts.start(0, sys.executable, "-c", BUSY)
    assert busy.stdout is not None
    assert busy.stdout.readline() == "2000\n"
    without = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    processes = [
        hosts.start(
            number,
            *(without if number == 2 else ()),
            *hosts.net_command(number),
            env={"PYTHONPATH": str(tmp_path)} if number == 1 else {},
        )
        for number in range(hosts.count)
    ]
    said = [said_by(process, 120) for process in processes]
    busy.kill()
    busy.communicate()
    assert culprits(said[0]) == {}, said[0].stdout
    assert [each.code for each in said] == [0] * hosts.count
    assert {each["outcome"] for each in said[0].report["measured"]["links"]["directions"]} == {"ok"}


@LONGER
def test_a_link_that_goes_down_in_the_middle(hosts: Hosts) -> None:
    """And a process that dies there: both fell silent after they had joined."""
    said = hosts.net_while(lambda: hosts.on(2, "ip", "link", "set", "eth0", "down"), on=2, deadline=30 + absence(hosts))
    assert culprits(said[0]).get("DDP214") == [2], said[0].stdout
    assert set(culprits(said[0])) == {"DDP214"}
    assert (said[0].code, said[2].code) == (1, 3)


@RARE
def test_a_probe_that_is_killed_in_the_middle(hosts: Hosts) -> None:
    said = hosts.net_while(lambda: [os.kill(pid, signal.SIGKILL) for pid in hosts.pids(2)], on=2, deadline=60)
    assert culprits(said[0]) == {"DDP214": [2]}, said[0].stdout
    assert "stopped responding" in said[0].report["findings"][0]["message"]


@LONGER
def test_torchrun_starts_it_as_it_starts_the_job(hosts: Hosts) -> None:
    """Two ranks a node, one of which works."""
    said = hosts.torchrun("-m", "ddpdoctor", "net", "--format", "json", nproc=2)
    assert [each.code for each in said.values()] == [0] * hosts.count, said[0].stderr
    assert culprits(said[0]) == {}
    assert len(said[0].report["measured"]["links"]["directions"]) == hosts.count * (hosts.count - 1)
    assert quiet(said, *range(1, hosts.count))


@RARE
def test_torchrun_behind_a_firewall_that_its_own_rendezvous_passes(hosts: Hosts) -> None:
    admit(hosts, 1, *RESET)
    said = hosts.torchrun("-m", "ddpdoctor", "net", "--format", "json")
    assert culprits(said[0]) == {"DDP215": [1]}, said[0].stdout


def test_nothing_is_left_behind(three: Hosts) -> None:
    for number in range(three.count):
        assert three.pids(number) == []
        assert "LISTEN" not in three.on(number, "ss", "-ltn").partition("\n")[2]


def _docker_bridge(hosts: Hosts, number: int) -> None:
    hosts.on(number, "ip", "link", "add", "docker0", "type", "bridge")
    hosts.on(number, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    hosts.on(number, "ip", "link", "set", "docker0", "up")
