"""The process that tries groups connects to the store by the address that its node has found, and asks no name service."""

from __future__ import annotations

import argparse
import subprocess

import pytest

from ddpdoctor.net.store_mailbox import Messages
from probes import net_node
from tests.net.test_protocol import MemoryStore


@pytest.mark.parametrize(
    ("node", "store_is_there", "address", "expected"),
    [
        (1, False, "10.0.0.7", "10.0.0.7"),
        (0, True, "10.0.0.7", "10.0.0.7"),
        (1, False, None, "master.example"),  # nothing else is known
        (0, False, "10.0.0.7", "localhost"),  # it serves the store itself
    ],
)
def test_groups_use_the_address_that_was_reached(
    node: int, store_is_there: bool, address: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *, deadline_seconds: float) -> subprocess.CompletedProcess[str]:
        assert deadline_seconds > 0
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(net_node, "run", run)
    options = argparse.Namespace(
        node=node, store_is_there=store_is_there, master_addr="master.example", master_port=29500
    )
    net_node.try_groups(Messages(MemoryStore(), "net"), options, (0, 1), address, until=0.0)
    (command,) = commands
    assert command[command.index("--addr") + 1] == expected
