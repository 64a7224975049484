"""A flight recorder with the fields of NCCL's, in the format that torch 2.13 dumps."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

VERSION = "2.10"
ENTRIES = 2000
DTYPES = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool",
}  # fmt: skip


@dataclass(eq=False)
class Entry:
    """One call. `stuck` where the device can never complete it."""

    group: Group
    number: int
    operation: str
    collective: int
    point_to_point: int
    op_id: int
    is_p2p: bool
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]
    timeout_ms: int
    frames: list[dict[str, Any]]
    created_ns: int = field(default_factory=time.time_ns)
    started_ns: int | None = None
    completed_ns: int | None = None
    stuck: bool = False

    def __post_init__(self) -> None:
        self.input_sizes, self.input_dtypes = _described(self.inputs)
        self.output_sizes, self.output_dtypes = _described(self.outputs)
        self.numel = sum(tensor.numel() for tensor in self.inputs), sum(tensor.numel() for tensor in self.outputs)
        self.inputs = self.outputs = ()
        self.group.last["enqueued"] = self

    def start(self) -> None:
        """The device has begun it."""
        self.started_ns = time.time_ns()
        self.group.last["started"] = self

    def complete(self) -> None:
        """The device is through with it."""
        self.completed_ns = time.time_ns()
        self.group.last["completed"] = self

    def dumped(self, *, stacks: bool) -> dict[str, Any]:
        """The entry as torch dumps it."""
        state = "completed" if self.completed_ns else "started" if self.started_ns else "scheduled"
        told = {
            "frames": self.frames if stacks else [],
            "record_id": self.number,
            "pg_id": self.group.number,
            "process_group": (self.group.name, self.group.description),
            "collective_seq_id": self.collective,
            "p2p_seq_id": self.point_to_point,
            "op_id": self.op_id,
            "profiling_name": f"nccl:{self.operation}",
            "time_created_ns": self.created_ns,
            "input_sizes": self.input_sizes,
            "input_dtypes": self.input_dtypes,
            "output_sizes": self.output_sizes,
            "output_dtypes": self.output_dtypes,
            "state": state,
            "time_discovered_started_ns": self.started_ns,
            "time_discovered_completed_ns": self.completed_ns,
            "retired": self.completed_ns is not None,
            "timeout_ms": self.timeout_ms,
            "is_p2p": self.is_p2p,
            "thread_id": str(threading.main_thread().ident),
            "thread_name": "python",
        }
        if self.completed_ns and self.started_ns:
            told["duration_ms"] = (self.completed_ns - self.started_ns) / 1e6
        return told


@dataclass(eq=False)
class Group:
    """A process group as the recorder knows it. `last` is the latest entry of each kind."""

    number: int
    name: str = ""
    description: str = ""
    ranks: tuple[int, ...] = ()
    last: dict[str, Entry] = field(default_factory=dict)

    def status(self) -> dict[str, str]:
        """The counters of `pg_status`."""
        return {
            f"last_{what}_collective": str(self.last[what].collective if what in self.last else -1)
            for what in ("enqueued", "started", "completed")
        }


class Recorder:
    """The ring of this rank's calls."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=ENTRIES)
        self.groups: list[Group] = []
        self.written = 0

    def add(self, **fields: Any) -> Entry:
        """A new entry."""
        entry = Entry(number=self.written, frames=_frames(), **fields)
        self.written += 1
        self.entries.append(entry)
        return entry

    def dump(
        self,
        includeCollectives: bool = True,  # noqa: N803 - PyTorch's names
        includeStackTraces: bool = True,  # noqa: N803
        onlyActive: bool = False,  # noqa: N803
    ) -> bytes:
        """What `torch._C._distributed_c10d._dump_fr_trace` returns."""
        chosen = [entry for entry in [*self.entries] if not onlyActive or entry.completed_ns is None]
        document = {
            "version": VERSION,
            "comm_lib_version": "2.28.9",
            "pg_config": {
                group.name: {"name": group.name, "desc": group.description, "ranks": str([*group.ranks])}
                for group in self.groups
            },
            "pg_status": {str(group.number): group.status() for group in self.groups},
        }
        if includeCollectives:
            document["entries"] = [entry.dumped(stacks=includeStackTraces) for entry in chosen]
        return pickle.dumps(document, protocol=2)


RECORDER = Recorder()


def _described(tensors: Sequence[torch.Tensor]) -> tuple[list[list[int]], list[str]]:
    return [list(tensor.shape) for tensor in tensors], [DTYPES.get(tensor.dtype, "Undefined") for tensor in tensors]


def _frames() -> list[dict[str, Any]]:
    """The stack of the caller, innermost first, without the frames of the stand-in."""
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith("<_standin"):
            frames.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back  # type: ignore[assignment]
    return frames
