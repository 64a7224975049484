"""The dumps of a run as the recorders of a PyTorch release write them, with what a user has set of them."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.stream_jobs.layouts import Layout
from tests.stream_jobs.streams import Entry, Host, Run

START = 1_762_000_000
# PyTorch 2.3 to 2.9 wrote these
VERSIONS = ("2.1", "2.3", "2.4", "2.5", "2.7", "2.9", "2.10")
NAMES = ("nccl_trace_rank_{}", "_dump_{}", "rank{}.pkl", "fr_rank_{}.pickle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """How the recorders were set up, and when and how dumps were taken."""

    version: str
    ring: int
    only_active: bool
    timing: bool
    frames: bool
    moments: bool
    """Whether it tells when calls ended."""
    name: str
    text: bool
    """Whether dumps are JSON."""
    timeout: float
    spread: float
    """Within how many seconds all dumps were taken."""
    copied: bool
    """Whether the files were copied since, and have the time of the copy."""
    unordered: bool
    """Whether the tables of groups are sorted by name."""
    tick: int = 1
    """The resolution of the clocks of all hosts, in nanoseconds."""
    missing: tuple[int, ...] = ()
    """Ranks whose dumps were lost although nothing is wrong with them."""
    early: Mapping[int, float] = field(default_factory=dict)
    """Ranks whose dumps were taken at a moment of the run, long before the others."""


def recorder(random: Random, world: int, seconds: float) -> Recorder:
    """A drawn one; `seconds` is how long the job ran."""
    only_active = random.random() < 0.35
    odd = random.random()
    return Recorder(
        version=random.choice(VERSIONS[2:] if only_active else VERSIONS),
        ring=random.choice((8, 16, 64, 256, 2000, 2000, 2000)) if not only_active else 2000,
        only_active=only_active,
        timing=random.random() < 0.3,
        frames=random.random() < 0.4,
        moments=random.random() < 0.8,
        name=random.choice(NAMES),
        text=random.random() < 0.1,
        timeout=random.choice((30.0, 180.0, 600.0)),
        spread=random.choice((0.05, 3.0, 12.0)),
        copied=random.random() < 0.2 and not 0.04 <= odd < 0.08,  # then nothing tells that a dump is older
        unordered=random.random() < 0.5,
        missing=(random.randrange(world),) if odd < 0.04 else (),
        early={random.randrange(world): seconds * random.uniform(0.3, 0.6)} if 0.04 <= odd < 0.08 else {},
    )


def write(
    folder: Path, run: Run, layout: Layout, setting: Recorder, random: Random, blind: Mapping[int, float]
) -> None:
    """The files of all ranks but the dead and the lost ones."""
    ended = max(
        (
            entry.end.at
            for host in run.hosts
            for entry in host.entries
            if entry.end is not None and entry.end.at is not None
        ),
        default=0.0,
    )
    for host in run.hosts:
        if host.rank in run.trouble.dead or host.rank in setting.missing:
            continue
        taken = setting.early.get(host.rank, ended + setting.timeout + random.uniform(0, setting.spread))
        document = _document(host, layout, setting, taken, min(taken, blind.get(host.rank, taken)))
        path = folder / setting.name.format(host.rank)
        if setting.text:
            path = path.with_suffix(".json")
            path.write_text(json.dumps(document))
        else:
            path.write_bytes(pickle.dumps(document, 2))
        moment = START + taken if not setting.copied else START + 40 * 86_400
        os.utime(path, (moment, moment))


@dataclass(slots=True)
class _Status:
    enqueued: int = -1
    started: int = -1
    completed: int = -1


def _document(host: Host, layout: Layout, setting: Recorder, taken: float, seen: float) -> dict[str, Any]:
    groups = [*layout.of_rank[host.rank].values()]
    numbers = {group.name: number for number, group in enumerate(groups)}
    statuses: dict[str, _Status] = {}
    entries: list[dict[str, Any]] = []
    through: list[tuple[float, str, int]] = []
    made = [entry for entry in host.entries if entry.created <= taken]
    for number, entry in enumerate(made):
        name = entry.group.name
        status = statuses.setdefault(name, _Status())
        if entry.end is not None:
            seq = entry.transfer if entry.between else entry.collective
            status.enqueued = seq
            if _by(entry.end.at, seen):
                through.append((entry.end.at or 0.0, name, seq))
            if setting.timing and entry.ready is not None and _by(entry.ready.at, seen):
                status.started = max(status.started, seq)
        entries.append(_entry(entry, number, numbers[name], setting, seen))
    for _, name, seq in sorted(through):
        statuses[name].completed = seq
    kept = entries[-setting.ring :]
    if setting.only_active:
        kept = [entry for entry in kept if entry["state"] != "completed"]
    used = [group for group in groups if group.name in statuses]
    if setting.unordered:
        used.sort(key=lambda group: group.name)
    document: dict[str, Any] = {
        "version": setting.version,
        "pg_config": {
            group.name: {"name": group.name, "desc": group.description, "ranks": str([*group.ranks])} for group in used
        },
        "entries": kept,
    }
    if _release(setting) >= 4:
        document["pg_status"] = {
            str(numbers[name]): {
                "last_enqueued_collective": status.enqueued,
                "last_started_collective": status.started,
                "last_completed_collective": status.completed,
            }
            for name, status in sorted(statuses.items())
        }
    if _release(setting) >= 9:
        document["comm_lib_version" if _release(setting) == 10 else "nccl_version"] = "2.27.3"
    return document


def _release(setting: Recorder) -> int:
    return int(setting.version.partition(".")[2])


def _by(at: float | None, moment: float) -> bool:
    return at is not None and at <= moment


def _entry(entry: Entry, number: int, group: int, setting: Recorder, seen: float) -> dict[str, Any]:
    ended = entry.end is not None and _by(entry.end.at, seen)
    began = setting.timing and entry.end is not None and entry.ready is not None and _by(entry.ready.at, seen)
    release = _release(setting)
    found: dict[str, Any] = {
        "record_id": number,
        "pg_id": group,
        "process_group": (entry.group.name, entry.group.description),
        "op_id": entry.number,
        "profiling_name": f"nccl:{entry.op}",
        "time_created_ns": _ns(entry.created, setting),
        "input_sizes": [[*entry.inputs]] if entry.inputs else [],
        "output_sizes": [[*entry.outputs]] if entry.outputs else [],
        "state": "completed" if ended else "started" if began else "scheduled",
        "time_discovered_started_ns": _ns(entry.ready.at, setting)
        if began and entry.ready and entry.ready.at
        else None,
        "time_discovered_completed_ns": (
            _ns(entry.end.at + 0.01, setting) if ended and setting.moments and entry.end and entry.end.at else None
        ),
        "retired": ended,
    }
    if release >= 3:
        found |= {
            "collective_seq_id": entry.collective,
            "p2p_seq_id": entry.transfer,
            "input_dtypes": [entry.dtype] if entry.inputs else [],
            "output_dtypes": [entry.dtype] if entry.outputs else [],
            "timeout_ms": int(setting.timeout * 1000),
            "is_p2p": entry.between,
        }
    else:
        found["seq_id"] = entry.collective + entry.transfer
    if release >= 9:
        found |= {"thread_name": "python3", "thread_id": "23456244340032"}
    if setting.frames:
        found["frames"] = _frames(entry.line)
    return found


def _frames(line: int) -> list[dict[str, Any]]:
    return [
        {"name": "wrapper", "filename": "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", "line": 81},
        {"name": _function(line), "filename": "/home/me/pretrain/model.py", "line": line},
        {"name": "main", "filename": "/home/me/pretrain/run.py", "line": 40},
    ]


def _function(line: int) -> str:
    ends = ((20, "setup"), (30, "forward"), (41, "backward"), (50, "attention"), (75, "schedule"), (80, "reduce"))
    return next((name for end, name in ends if line < end), "finish")


def _ns(seconds: float, setting: Recorder) -> int:
    return START * 10**9 + int(seconds * 1e9) // setting.tick * setting.tick
