"""Bytes of any size through a job's rendezvous store: no process group, no collective. A value is there whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import zlib
from datetime import timedelta

from torch.distributed import DistError, PrefixStore, Store, TCPStore  # type: ignore[attr-defined] # public all the same

from ddpdoctor.transport.peer_names import look_up_names_in_files_only, numeric_addresses

PIECE_BYTES = 4 << 20  # a store takes 8 MiB at a time
MOST_BYTES = 1 << 30  # of one value, unpacked
COUNT_DIGITS = 9
CONNECT_SECONDS = 5.0  # for one attempt of several
AGAIN_SECONDS = 0.1  # between two attempts
LEAST_SECONDS = 0.1  # what is in the store already comes within it
POLL_SECONDS = 0.05


def open_store(host: str, port: int, *, serve: bool, timeout_seconds: float) -> Store:
    """The store at `host:port`, of which `own_part` gives what belongs to a purpose.

    With `serve` this process listens there. Either way it finds host names in /etc/hosts alone from then on. `timeout_seconds`
    bounds the connection, which is tried again every few seconds, and every later call.

    Raises:
        torch.distributed.DistError: nothing answers there in time, or another program listens there.
    """
    if not serve:
        return _connected(host, port, timeout_seconds)
    store = TCPStore(
        host, port, None, is_master=True, timeout=timedelta(seconds=timeout_seconds), wait_for_workers=False
    )
    look_up_names_in_files_only()
    return store


def _connected(host: str, port: int, timeout_seconds: float) -> Store:
    """A connection, tried again every few seconds: where hundreds connect at one moment, some are not answered."""
    end = time.monotonic() + timeout_seconds
    for attempt in itertools.count():
        addresses = numeric_addresses(host)
        seconds = min(CONNECT_SECONDS, max(LEAST_SECONDS, end - time.monotonic()))
        try:
            store = TCPStore(addresses[attempt % len(addresses)], port, None, False, timedelta(seconds=seconds))
            store.set_timeout(timedelta(seconds=timeout_seconds))
        except DistError:
            if time.monotonic() > end - LEAST_SECONDS:
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            return store
    raise AssertionError


def own_part(store: Store, purpose: str) -> Store:
    """The keys of `store` that belong to `purpose`, to this attempt of an elastic launch and to this run of our command.

    A launcher's store outlives a command: the keys of the command before are still in it. `next_run` counts the runs.
    """
    return PrefixStore(f"{_of_attempt(purpose)}/{store.add(_runs(purpose), 0)}", store)


def next_run(store: Store, purpose: str) -> None:
    """Count the run as over: who connects from now on belongs to the next one.

    Called by rank 0 alone, with the store that it gave to `own_part`, once the others have connected or are given up.
    """
    with contextlib.suppress(DistError):  # a store that has ended has no next run
        store.add(_runs(purpose), 1)


def _of_attempt(purpose: str) -> str:
    return f"ddpdoctor/{purpose}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _runs(purpose: str) -> str:
    return f"{_of_attempt(purpose)}/runs"


def put(store: Store, key: str, data: bytes) -> None:
    """Store `data` under `key`, compressed and in pieces; the key appears last, when all of it is there."""
    packed = zlib.compress(data, 1)
    pieces = [packed[start : start + PIECE_BYTES] for start in range(0, len(packed), PIECE_BYTES)]
    for number, piece in enumerate(pieces):
        store.set(f"{key}/{number}", piece)  # type: ignore[arg-type] # it takes bytes as well
    store.set(key, str(len(pieces)))


def get(store: Store, key: str, *, until: float) -> bytes | None:
    """What `put` stored under `key`, or None where it is not there by `until` (of `time.monotonic`).

    Raises:
        ValueError: what is there was not stored by `put`.
        torch.distributed.DistError: the store does not answer.
    """
    if not comes(store, key, until=until):
        return None
    pieces = _pieces(store, key)
    if pieces and not store.check(pieces):
        raise ValueError(f"not all of the {len(pieces)} pieces of {key} are in the store")
    try:
        return zlib.decompressobj().decompress(b"".join(map(store.get, pieces)), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"{key} in the store is not compressed: {error}") from None


def comes(store: Store, key: str, *, until: float) -> bool:
    """Whether `key` is in the store by `until` (of `time.monotonic`)."""
    try:
        store.wait([key], timedelta(seconds=max(LEAST_SECONDS, until - time.monotonic())))
    except DistError:
        return False
    return True


def clear(store: Store, key: str) -> None:
    """Delete what `put` stored under `key`."""
    for used in (key, *_pieces(store, key)):
        store.delete_key(used)


def _pieces(store: Store, key: str) -> list[str]:
    """The keys of the pieces of a value; ValueError where its key does not hold their number."""
    count = store.get(key)
    if len(count) > COUNT_DIGITS or not count.isdigit() or int(count) > MOST_BYTES // PIECE_BYTES:
        raise ValueError(f"{key} in the store is not the number of its pieces: {count[:COUNT_DIGITS]!r}")
    return [f"{key}/{number}" for number in range(int(count))]


def wait_for(store: Store, counter: str, count: int, *, seconds: float) -> None:
    """Wait until `counter` has reached `count`, `seconds` at most; the store may end with another process before."""
    end = time.monotonic() + seconds
    with contextlib.suppress(DistError):
        while store.add(counter, 0) < count and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
