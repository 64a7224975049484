"""How ranks meet over a store: clocks are compared across machines, and everything reaches rank 0."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from argparse import Namespace
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import HashStore, PrefixStore, TCPStore

from ddpdoctor.transport.store import put
from tests.free_port import free_port

PROBE = Path(__file__).parents[2] / "probes" / "env_gather.py"


@pytest.fixture(scope="module")
def gather():
    sys.path.insert(0, str(PROBE.parent))  # the program's own folder
    spec = importlib.util.spec_from_file_location("gather_probe", PROBE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrive(store: HashStore, rank: int, *, clock: str, facts: str = "{}") -> int:
    number = store.add("arrivals", 1)
    who = {"rank": rank, "world_size": 2, "host": f"host-{rank}", "pid": 100 + rank, "clock": clock}
    store.set(f"arrival/{number}", json.dumps(who))
    put(store, f"facts/{number}", facts.encode())
    return number


def heard(gather, store: HashStore, out: Path, *, deadline: float = 30.0) -> list[dict]:
    gather.listen(store, 1, Namespace(world_size=2, deadline=deadline, out=out))
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_the_clock_of_another_machine_is_compared_within_its_error(gather, tmp_path: Path) -> None:
    store = HashStore()
    arrive(store, 0, clock="boot-a")
    other = arrive(store, 1, clock="boot-b", facts='{"facts": {}}')
    answering = threading.Thread(target=gather.answer, args=(store, other, 60.0))
    answering.start()
    own, theirs = heard(gather, store, tmp_path / "out.jsonl")
    answering.join(timeout=60)
    assert not answering.is_alive()
    assert own["clock"] is None
    assert theirs["facts"] == {"facts": {}}
    assert abs(theirs["clock"]["ahead_seconds"]) <= theirs["clock"]["error_seconds"] + 1e-6


def test_ranks_of_one_machine_share_its_clock(gather, tmp_path: Path) -> None:
    store = HashStore()
    arrive(store, 0, clock="boot-a")
    other = arrive(store, 1, clock="boot-a")
    answering = threading.Thread(target=gather.answer, args=(store, other, 60.0))
    answering.start()
    lines = heard(gather, store, tmp_path / "out.jsonl")
    answering.join(timeout=60)
    assert [line["clock"] for line in lines] == [None, None]


def test_a_rank_that_came_and_told_nothing_is_kept_without_facts(gather, tmp_path: Path) -> None:
    store = HashStore()
    arrive(store, 0, clock="boot-a")
    store.add("arrivals", 1)
    store.set("arrival/2", json.dumps({"rank": 1, "world_size": 2, "host": "b", "pid": 7, "clock": "boot-a"}))
    store.add("left", 1)
    lines = heard(gather, store, tmp_path / "out.jsonl", deadline=0.5)
    assert [(line["arrival"]["rank"], line["facts"]) for line in lines] == [(0, {}), (1, None)]


def test_of_two_processes_of_rank_0_the_one_that_serves_the_store_speaks(tmp_path: Path) -> None:
    """The other is ready first; did it speak, the store would be gone before it has said goodbye."""
    port = free_port()
    serving = claim_rank_0(tmp_path, "serving", port)
    try:
        store = TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60))
        second = claim_rank_0(tmp_path, "second", port)
        (tmp_path / "second.facts").write_text("{}")
        PrefixStore("ddpdoctor/env/0", store).wait(["facts/2"], timedelta(seconds=60))
        (tmp_path / "serving.facts").write_text("{}")
        assert (serving.wait(60), second.wait(60)) == (0, 0)
    finally:
        serving.kill()
    told = [json.loads(line)["arrival"] for line in (tmp_path / "serving.out").read_text().splitlines()]
    assert [who["rank"] for who in told] == [0, 0]
    assert not (tmp_path / "second.out").exists()


def claim_rank_0(folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable, str(PROBE), "--rank", "0", "--world-size", "2", "--host", "127.0.0.1", "--port", str(port),
            "--deadline", "3", "--facts", str(folder / f"{name}.facts"), "--out", str(folder / f"{name}.out"),
        ]
    )  # fmt: skip
