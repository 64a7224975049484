"""A node of `ddpdoctor net` shows that it lives from its first moment on."""

from __future__ import annotations

import argparse
import importlib.util
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ddpdoctor.net import store_mailbox
from ddpdoctor.net.store_mailbox import Messages
from tests.waiting import within

PROBE = Path(__file__).parents[2] / "probes" / "net_node.py"
PATIENCE_SECONDS = 60.0
pytestmark = pytest.mark.timeout(300)


class Counters:
    """A connection to the store, which counts what goes over it."""

    def __init__(self) -> None:
        self.beats = 0

    def add(self, key: str, amount: int) -> int:
        self.beats += amount
        return self.beats


@pytest.fixture(scope="module")
def net_node() -> ModuleType:
    spec = importlib.util.spec_from_file_location("net_node", PROBE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("is_made", [True, False])
def test_a_node_shows_life_while_its_second_connection_is_not_open(
    net_node: ModuleType, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    """A store of hundreds of nodes may take longer to accept it than a node may be silent."""
    shared: Any = Counters()
    own, answered, stop = Counters(), threading.Event(), threading.Event()

    def slow(*_: object) -> Counters | None:
        answered.wait(PATIENCE_SECONDS)
        return own if is_made else None

    monkeypatch.setattr(net_node, "another_connection", slow)
    monkeypatch.setattr(store_mailbox, "PULSE_SECONDS", 0.01)
    options = argparse.Namespace(node=1, master_addr="head", master_port=1, store_is_there=False)
    living = threading.Thread(
        target=net_node.show_life, args=(Messages(shared, "test"), options, "head", stop), daemon=True
    )
    living.start()
    try:
        assert within(lambda: shared.beats > 2)
        answered.set()
        used = own if is_made else shared
        before = used.beats
        assert within(lambda: used.beats > before + 2)
    finally:
        answered.set()
        stop.set()
        living.join(PATIENCE_SECONDS)
    assert not living.is_alive()
