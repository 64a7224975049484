"""The flight-recorder documents of a run, as different versions and settings of PyTorch write them."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.random_jobs.run import Event, Run

EPOCH_NS = 1_763_000_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Settings of the recorder. `early` has the moment of ranks whose dump was made before the end."""

    ring: int = 2000
    active: bool = False
    timing: bool = False
    frames: bool = False
    as_json: bool = False
    numbered: bool = False
    version: str = "2.10"
    early: Mapping[int, int] = field(default_factory=dict)
    apart_ns: int = 0


def write(run: Run, recorder: Recorder, folder: Path, lost: set[int], *, old_seconds: float = 300.0) -> None:
    """One file per rank that left one."""
    last = max(event.ended or event.created for events in run.events for event in events)
    for rank, events in enumerate(run.events):
        if rank in lost:
            continue
        taken = recorder.early.get(rank, last + int(old_seconds * 1e9) + rank * recorder.apart_ns)
        document = _document(run, rank, events, recorder, taken)
        file = folder / (f"nccl_trace_rank_{rank}" if not recorder.as_json else f"rank{rank}.json")
        file.write_bytes(json.dumps(document).encode() if recorder.as_json else pickle.dumps(document, protocol=4))
        os.utime(file, ns=(EPOCH_NS + taken,) * 2)


def _document(run: Run, rank: int, events: list[Event], recorder: Recorder, taken: int) -> dict[str, Any]:
    groups = run.mesh.groups_of(rank)
    numbers = {group.name: number for number, group in enumerate(groups)}
    status = {
        str(number): {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}
        for number in range(len(groups))
    }
    collectives = dict.fromkeys(numbers, 0)
    operations = dict.fromkeys(numbers, 0)
    entries: list[dict[str, Any]] = []
    seen = [event for event in events if event.created <= taken]
    for place, event in enumerate(seen):
        group = event.group.name
        done = event.ended is not None and event.ended <= taken and event.seen
        begun = event.begun is not None and event.blockers == 0
        of_group = status[str(numbers[group])]
        of_group["last_enqueued_collective"] = event.number
        if done:
            of_group["last_completed_collective"] = max(event.number, of_group["last_completed_collective"])
        if event.op.peer is None:
            collectives[group] = event.number
        operations[group] += 1
        bundled = event.op.bundle is not None
        entries.append(
            _entry(
                event,
                numbers[group],
                collectives[group],
                operations[group],
                record=len(entries),
                state=("completed" if done else "started" if begun and recorder.timing else "scheduled")
                if not bundled
                else "scheduled",
                recorder=recorder,
            )
        )
        after = seen[place + 1] if place + 1 < len(seen) else None
        if bundled and (after is None or after.op.bundle != event.op.bundle):
            batch = [one for one in seen[max(0, place - 3) : place + 1] if one.op.bundle == event.op.bundle]
            whole = all(one.ended is not None and one.ended <= taken and one.seen for one in batch)
            closing = _entry(
                event,
                numbers[group],
                collectives[group],
                operations[group],
                record=len(entries),
                state="completed" if whole else "scheduled",
                recorder=recorder,
            )
            entries.append({**closing, "profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": []})
    kept = [one for one in entries[-recorder.ring :] if not recorder.active or one["state"] != "completed"]
    return {
        "version": recorder.version,
        "pg_config": {
            group.name: {"name": group.name, "desc": group.description, "ranks": str([*group.ranks])}
            for group in groups
        },
        "pg_status": status,
        "entries": kept,
    }


def _entry(
    event: Event, number: int, collective: int, operation: int, *, record: int, state: str, recorder: Recorder
) -> dict[str, Any]:
    op, ranks = event.op, event.group.ranks
    name = op.name
    if op.peer is not None:
        arrow = "->" if name == "send" else "<-"
        name = f"{name} {ranks.index(event.rank)}{arrow}{ranks.index(op.peer)}"
    done = state == "completed"
    entry: dict[str, Any] = {
        "record_id": record,
        "pg_id": number,
        "process_group": [event.group.name, event.group.description]
        if recorder.as_json
        else (event.group.name, event.group.description),
        "collective_seq_id": collective,
        "p2p_seq_id": event.number if op.peer is not None else 0,
        "op_id": operation,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": EPOCH_NS + event.created,
        "input_sizes": [[*op.sizes]],
        "input_dtypes": [op.dtype],
        "output_sizes": [[*op.sizes]],
        "output_dtypes": [op.dtype],
        "state": state,
        "time_discovered_started_ns": EPOCH_NS + (event.begun or 0)
        if state != "scheduled" and recorder.timing
        else None,
        "time_discovered_completed_ns": EPOCH_NS + (event.ended or 0) if done else None,
        "retired": done,
        "timeout_ms": 300_000,
        "is_p2p": op.peer is not None,
    }
    if recorder.frames:
        entry["frames"] = [
            {
                "name": "all_reduce",
                "filename": "/opt/venv/lib/python3.12/site-packages/torch/distributed/x.py",
                "line": 9,
            },
            {"name": "train", "filename": "/home/ann/llm/train.py", "line": op.line},
        ]
    return entry
