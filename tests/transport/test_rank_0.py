"""Rank 0's part of the exchange of facts, with messages that no leader of ours sends."""

from __future__ import annotations

import time

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined] # public all the same

from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.rank_0 import MOST_DUE, Gathered, collect
from ddpdoctor.transport.store import put


def gathered_from(store: HashStore, *, seconds: float = 0.3) -> Gathered:
    gathered = Gathered()
    collect(store, gathered, 4, until=time.monotonic() + seconds, on_change=lambda _bundle: None)
    return gathered


def test_a_number_of_messages_that_nobody_can_have_sent_takes_no_memory() -> None:
    store = HashStore()
    store.add("bundles", 1 << 62)
    store.set(f"bundle/{MOST_DUE + 1}", b"1\n{")
    assert gathered_from(store).unread == []


@pytest.mark.parametrize("count", [b"9" * 5000, b"-1", b"1000000", b"2", b"1"], ids=lambda count: count[:8].decode())
def test_a_message_that_no_leader_stored_costs_only_itself(count: bytes) -> None:
    store = HashStore()
    store.add("bundles", 1)
    store.set("bundle/1/0", b"not compressed")
    store.set("bundle/1", count)
    (unread,) = gathered_from(store).unread
    assert unread.startswith("message 1 cannot be used: bundle/1 in the store is not") or "pieces of bundle/1" in unread
    assert len(unread) < 200


def test_a_leader_whose_number_has_thousands_of_digits_is_not_taken_for_one() -> None:
    store = HashStore()
    store.add("bundles", 1)
    put(store, "bundle/1", b"9" * 5000 + b"\n{")
    gathered = gathered_from(store)
    assert gathered.leaders == {}
    assert len(gathered.unread) == 1
    assert len(gathered.unread[0]) < 300


def test_a_message_that_was_read_leaves_the_store() -> None:
    """Regression: all that the ranks sent stayed in the store's memory beside the copy that rank 0 holds."""
    who = ProcessIdentity(rank=1, world_size=4, host="a", pid=1, clock="a")
    own = Bundle()
    own.add(who, {"part": [b"x" * 1000]})
    store = HashStore()
    store.add("bundles", 2)
    put(store, "bundle/1", b"1\n" + own.encode())
    put(store, "bundle/2", b"1\n{")
    gathered = gathered_from(store)
    assert gathered.bundle.part(who, "part") == b"x" * 1000
    assert len(gathered.unread) == 1
    assert not [key for key in ("bundle/1", "bundle/1/0", "bundle/2", "bundle/2/0") if store.check([key])]
