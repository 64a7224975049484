"""Entries of older flight-recorder dumps, with the fields that newer versions have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

END_OF_BATCH = "coalesced"  # closes calls that were issued as one
TENSORS = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_ADDED_LATER = {
    "process_group": ("", ""),
    "pg_id": 0,
    "is_p2p": None,
    "timeout_ms": None,
    "frames": (),
    "retired": False,
    "time_discovered_completed_ns": None,
    **dict.fromkeys(TENSORS, ()),
}
PEERS = re.compile(r"(?:send (?P<from>\d+)->(?P<to>\d+)|recv (?P<at>\d+)<-(?P<of>\d+))")


def as_written_now(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Entries of an older dump with the fields that newer versions have.

    One number counted all calls of a group then, sends included, which ranks make different numbers of. While the ring still
    holds all of them, collectives are counted anew.
    """
    transfers: dict[object, set[object]] = {}
    collectives: dict[object, set[object]] = {}
    counted_anew = False
    for place, entry in enumerate(entries):
        if "collective_seq_id" in entry:
            between = _is_transfer(entry, transfers, collectives)
            yield {**_ADDED_LATER, "p2p_seq_id": entry["collective_seq_id"], "is_p2p": between, **entry}
            continue
        counted_anew = counted_anew or (place == 0 and entry["record_id"] == 0)
        group, seq, operation = entry.get("pg_id", 0), entry["seq_id"], operation_of(entry["profiling_name"])[1]
        known = transfers.setdefault(group, set())
        between = bool(PEERS.fullmatch(operation)) or (operation == END_OF_BATCH and seq in known)
        if between:
            known.add(seq)
        collective = seq - len(known) if counted_anew else seq
        yield {**_ADDED_LATER, "collective_seq_id": collective, "p2p_seq_id": seq, "is_p2p": between, **entry}


def _is_transfer(
    entry: Mapping[str, Any], transfers: dict[object, set[object]], collectives: dict[object, set[object]]
) -> bool | None:
    """Whether an entry is a send, a receive, or what closes a batch of them, by the batch's own number. None: read its name.

    `transfers` and `collectives` hold the numbers of sends that each group had made at those that were seen.
    """
    if "is_p2p" in entry or "p2p_seq_id" not in entry:
        return None
    group, seq, operation = entry.get("pg_id", 0), entry["p2p_seq_id"], operation_of(entry["profiling_name"])[1]
    sent, met = transfers.setdefault(group, set()), collectives.setdefault(group, set())
    if operation == END_OF_BATCH:
        return bool(sent) and seq not in met  # what it closes may repeat earlier entries, and be cut out
    between = bool(PEERS.fullmatch(operation))
    (sent if between else met).add(seq)
    return between


def operation_of(profiling_name: str) -> tuple[str, str]:
    """The backend, and the operation of a call with its peers: `nccl` and `send 0->1`."""
    backend, colon, operation = profiling_name.partition(":")
    return (backend, operation) if colon else ("", backend)
