"""What ranks leave for each other at the end of a tracked block: whole, in time, and cleared away by the last reader."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch.distributed as dist

from ddpdoctor import tracking
from ddpdoctor.tracking import _Exchange
from ddpdoctor.transport import store as transport

RANKS = 3


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dist.Store:
    shared = dist.HashStore()
    monkeypatch.setattr(tracking, "_store", lambda: shared)
    monkeypatch.setattr(dist, "get_world_size", lambda: RANKS)
    monkeypatch.setattr(transport, "PIECE_BYTES", 10)
    return shared


def give(monkeypatch: pytest.MonkeyPatch, rank: int, said: dict[str, Any]) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    exchange().give(said)


def exchange(seconds: float = 5.0) -> _Exchange:
    return _Exchange("block/0", time.monotonic() + seconds)


def test_every_rank_reads_every_ranks_words_and_nothing_stays(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {rank: {"files": {"1.sync.jsonl": f"rank {rank} " * 50}} for rank in range(RANKS)}
    for rank, said in words.items():
        give(monkeypatch, rank, said)
    kept = store.num_keys()
    assert kept > 2 * RANKS
    assert [exchange().take() for _ in range(RANKS)] == [words] * RANKS
    assert store.num_keys() == 0


def test_a_rank_that_never_comes_is_none_and_keeps_nobody_waiting(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 2):
        give(monkeypatch, rank, {"raised": ""})
    assert exchange(0.2).take() == {0: {"raised": ""}, 1: None, 2: {"raised": ""}}


def test_a_rank_that_read_stays_until_all_have_or_the_time_is_over(store: dist.Store) -> None:
    """The first two wait for the third in vain, or not at all once it has left."""
    began = time.monotonic()
    exchange(0.2).leave(wait=True)
    assert time.monotonic() - began >= 0.15
    exchange(60).leave(wait=False)
    exchange(60).leave(wait=True)
    assert store.check(["block/0/all left"])
    assert time.monotonic() - began < 50
