"""The network as this host sees it."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.network import Infiniband, Master, Network
from ddpdoctor.host import dns, network
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.host.ports import listeners


def collected(**environ: str) -> dict[type, object]:
    return {type(fact): fact for fact in network.collect(HostAccess(environ=environ))}


def test_this_host_has_loopback_and_an_ephemeral_range() -> None:
    here = collected()[Network]

    assert here.interface_of("127.0.0.1").loopback
    assert here.ephemeral_ports is not None


def test_without_master_addr_it_is_missing_with_the_reason() -> None:
    missing = collected()[Missing]
    assert (missing.kind, missing.reason) == ("Master", "MASTER_ADDR is not set")


def test_the_owner_of_the_master_port_is_named_and_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        master = collected(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))[Master]
        (owner,) = listeners(port)

    assert master.local
    assert master.owner == owner
    assert (owner.pid, owner.ours) == (os.getpid(), True)
    assert "python" in owner.command
    assert listeners(port) == ()


def test_an_unresolvable_master_says_why() -> None:
    master = collected(MASTER_ADDR="no-such-host.invalid", MASTER_PORT="29500")[Master]
    assert master.addresses == ()
    assert master.error


def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def hang(*_, **__):
        never.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        assert dns.resolve("anything", deadline_seconds=0.05).error == "no answer within 0.05 s"
    finally:
        never.set()


def test_infiniband_ports_are_read_in_the_kernels_words(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, text in {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
    }.items():  # fmt: skip
        (port / name).write_text(text + "\n")

    facts = {type(fact): fact for fact in network.collect(HostAccess(root=tmp_path, environ={}))}

    (found,) = facts[Infiniband].ports
    assert (found.device, found.port, found.state, found.rate) == ("mlx5_0", 1, "ACTIVE", "400 Gb/sec (4X NDR)")
    assert found.active
