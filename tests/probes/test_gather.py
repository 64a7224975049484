"""How ranks meet over a store: clocks are compared across machines, and everything reaches rank 0."""

from __future__ import annotations

import importlib.util
import json
import threading
from argparse import Namespace
from pathlib import Path

import pytest
from torch.distributed import HashStore

PROBE = Path(__file__).parents[2] / "probes" / "gather.py"


@pytest.fixture(scope="module")
def gather():
    spec = importlib.util.spec_from_file_location("gather_probe", PROBE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrive(store: HashStore, rank: int, *, clock: str, facts: str = "{}") -> int:
    number = store.add("arrivals", 1)
    who = {"rank": rank, "world_size": 2, "host": f"host-{rank}", "pid": 100 + rank, "clock": clock}
    store.set(f"arrival/{number}", json.dumps(who))
    store.set(f"facts/{number}", facts)
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
