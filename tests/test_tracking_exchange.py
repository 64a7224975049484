"""What ranks leave for each other at the end of a tracked block: whole, in time, and cleared away by the last reader."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch.distributed as dist

from ddpdoctor import tracking
from ddpdoctor.tracking import _evidence, _Exchange, _FromRank
from ddpdoctor.transport import store as transport
from ddpdoctor.transport.peer_message import PeerError

RANKS = 3


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dist.Store:
    shared = dist.HashStore()
    monkeypatch.setattr(tracking, "_store", lambda: shared)
    monkeypatch.setattr(dist, "get_world_size", lambda: RANKS)
    monkeypatch.setattr(transport, "PIECE_BYTES", 10)
    return shared


def give(monkeypatch: pytest.MonkeyPatch, rank: int, said: _FromRank) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    exchange().give(said)


def exchange(seconds: float = 5.0) -> _Exchange:
    return _Exchange("block/0", time.monotonic() + seconds)


def test_every_rank_reads_every_ranks_words_and_nothing_stays(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {rank: _FromRank(files={"1.sync.jsonl": f"rank {rank} " * 50}, raised="") for rank in range(RANKS)}
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
        give(monkeypatch, rank, _FromRank(files={}, raised=""))
    assert exchange(0.2).take() == {0: _FromRank(files={}, raised=""), 1: None, 2: _FromRank(files={}, raised="")}


@pytest.mark.parametrize("said", [b"[]", b'{"files": 1, "raised": ""}', b"\xff", b"{" * 3000, b'{"files": {}}'])
def test_a_rank_that_sends_something_else_is_named_and_the_others_are_read(
    store: dist.Store, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    for rank in (0, 2):
        give(monkeypatch, rank, _FromRank(files={}, raised=""))
    transport.put(store, "block/0/1", said)
    given = exchange(1).take()
    assert isinstance(given[1], PeerError)
    assert given[2] == _FromRank(files={}, raised="")
    assert any("what rank 1 sent cannot be used" in text for text in _evidence(given).undecided)


def test_the_name_of_a_file_cannot_leave_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = ("../../x", "/x", "a/../../../x", "\0", "x" * 500, f"{tmp_path}/x")
    _evidence({0: _FromRank(files=dict.fromkeys(names, "text"), raised="")})
    assert not list(tmp_path.iterdir())


def test_a_rank_that_read_stays_until_all_have_or_the_time_is_over(store: dist.Store) -> None:
    """The first two wait for the third in vain, or not at all once it has left."""
    began = time.monotonic()
    exchange(0.2).leave(wait=True)
    assert time.monotonic() - began >= 0.15
    exchange(60).leave(wait=False)
    exchange(60).leave(wait=True)
    assert store.check(["block/0/all left"])
    assert time.monotonic() - began < 50
