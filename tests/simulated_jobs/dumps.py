"""The dumps that NCCL's recorder writes of a simulated job, in the format of torch 2.9 to 2.13."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.simulated_jobs.execution import Execution, Issued

START_NS = 1_758_609_000_000_000_000
TIMEOUT_MS = 600_000
HUNG_NS = 600 * 10**9
RING = 2000
NAMES = {"send": "send {mine}->{theirs}", "recv": "recv {mine}<-{theirs}"}


def dumps_of(
    run: Execution,
    *,
    ring: int = RING,
    only_active: bool = False,
    at_ns: Mapping[int, int] | None = None,
    without: frozenset[int] = frozenset(),
    frames: bool = False,
) -> dict[int, dict[str, Any]]:
    """The document of every rank but those `without` one.

    `at_ns` is when a rank's dump was taken, in nanoseconds since the job began; by default long after nothing moved any more.
    """
    ended = max(call.done or call.created for calls in run.issued for call in calls)
    found = {}
    for rank, calls in enumerate(run.issued):
        if rank not in without:
            taken = (at_ns or {}).get(rank, ended + HUNG_NS)
            found[rank] = _document(run, rank, calls, taken, ring=ring, only_active=only_active, frames=frames)
    return found


def write(
    documents: Mapping[int, Mapping[str, Any]], folder: Path, *, waited_seconds: float | None = HUNG_NS / 1e9
) -> None:
    """One file per rank, last changed `waited_seconds` after the job's last call; as copied where that is None."""
    last = max((entry["time_created_ns"] for one in documents.values() for entry in one["entries"]), default=START_NS)
    for rank, document in documents.items():
        file = folder / f"nccl_trace_rank_{rank}"
        file.write_bytes(pickle.dumps(document, protocol=2))
        if waited_seconds is not None:
            os.utime(file, ns=(last + int(waited_seconds * 1e9),) * 2)


def _document(
    run: Execution, rank: int, calls: list[Issued], taken: int, *, ring: int, only_active: bool, frames: bool
) -> dict[str, Any]:
    groups = run.topology.groups_of(rank)
    entries: list[dict[str, Any]] = []
    status = {
        str(number): {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}
        for number in range(len(groups))
    }
    numbers = {group.name: number for number, group in enumerate(groups)}
    collectives = dict.fromkeys(numbers, 0)
    seen = [call for call in calls if call.created <= taken]
    for position, call in enumerate(seen):
        done = call.done is not None and call.done <= taken and call.noticed
        number = numbers[call.group.name]
        of_group = status[str(number)]
        of_group["last_enqueued_collective"] = call.seq
        if done:
            of_group["last_completed_collective"] = max(of_group["last_completed_collective"], call.seq)
        if call.call.peer is None:
            collectives[call.group.name] = call.seq
        in_batch = call.call.batch is not None
        entries.append(
            _entry(len(entries), number, call, collectives[call.group.name], done=done and not in_batch, frames=frames)
        )
        following = seen[position + 1] if position + 1 < len(seen) else None
        if in_batch and (following is None or following.call.batch != call.call.batch):
            batch = [one for one in seen[max(0, position - 8) : position + 1] if one.call.batch == call.call.batch]
            whole = all(one.done is not None and one.done <= taken and one.noticed for one in batch)
            entries.append(_closing(len(entries), number, call, collectives[call.group.name], done=whole))
    kept = [entry for entry in entries[-ring:] if not only_active or entry["time_discovered_completed_ns"] is None]
    return {
        "version": "2.10",
        "pg_config": {
            group.name: {"name": group.name, "desc": group.description, "ranks": str([*group.ranks])}
            for group in sorted(groups, key=lambda group: (group.name, group.description))
        },
        "comm_lib_version": "2.27.3",
        "pg_status": status,
        "entries": kept,
    }


def _entry(record: int, number: int, issued: Issued, collective: int, *, done: bool, frames: bool) -> dict[str, Any]:
    call = issued.call
    between = call.peer is not None
    name = call.op
    if call.peer is not None:
        mine, theirs = (issued.group.ranks.index(one) for one in (issued.rank, call.peer))
        name = NAMES[call.op].format(mine=mine, theirs=theirs)
    created = START_NS + issued.created
    completed = START_NS + issued.done if done and issued.done is not None else None
    entry: dict[str, Any] = {
        "record_id": record,
        "pg_id": number,
        "process_group": (issued.group.name, issued.group.description),
        "thread_name": "python3",
        "thread_id": "23456244340032",
        "collective_seq_id": collective,
        "p2p_seq_id": issued.seq if between else 0,
        "op_id": issued.seq + (collective if between else 0),
        "profiling_name": f"nccl:{name}",
        "time_created_ns": created,
        "input_sizes": [[*call.sizes]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[*call.sizes]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": completed,
        "retired": done,
        "timeout_ms": TIMEOUT_MS,
        "is_p2p": between,
    }
    if frames:
        place = sum(map(ord, f"{call.description}{call.op}")) % 200
        entry["frames"] = [{"name": "step", "filename": "/home/me/job/train.py", "line": place}]
    return entry


def _closing(record: int, number: int, last: Issued, collective: int, *, done: bool) -> dict[str, Any]:
    entry = _entry(record, number, last, collective, done=done, frames=False)
    return {**entry, "profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": []}
