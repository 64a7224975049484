"""`ddpdoctor net` on hosts made of network namespaces: each planted fault gets its code and its culprit, and no other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

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


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """Three or five hosts, as they were made once the test is over."""
    made: Hosts = request.getfixturevalue(request.param)
    yield made
    for number in range(made.count):
        made.on(number, "iptables", "-F")
        made.names(number)


BOTH = [pytest.param("three", id="3")]


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


def test_nothing_is_left_behind(three: Hosts) -> None:
    for number in range(three.count):
        assert three.pids(number) == []
        assert "LISTEN" not in three.on(number, "ss", "-ltn").partition("\n")[2]


def _wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
