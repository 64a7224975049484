"""The keys of a launcher's store, which outlives our commands: each run has its own."""

from __future__ import annotations

import pytest
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]

from ddpdoctor.transport.store import next_run, own_part


@pytest.fixture
def store() -> Store:
    return HashStore()


def test_a_second_run_under_the_same_launcher_finds_no_keys_of_the_first(store: Store) -> None:
    """Regression: two `ddpdoctor env` one after the other in one torchrun waited for each other until the deadline."""
    first = [own_part(store, "env") for _ in range(2)]  # rank 0 and another
    assert first[0].add("speakers", 1) == 1
    first[1].set("bundle", "old")
    next_run(store, "env")
    assert first[0].get("bundle") == b"old"  # who has connected still meets the others
    second = own_part(store, "env")
    assert not second.check(["bundle"])
    assert second.add("speakers", 1) == 1


def test_purposes_and_attempts_count_their_own_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    next_run(store, "env")
    own_part(store, "sync").set("code", "1")
    assert not own_part(store, "env").check(["code"])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not own_part(store, "sync").check(["code"])
