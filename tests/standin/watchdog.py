"""Ends a rank whose collective exceeds its timeout, with the messages and the dump of NCCL's watchdog, and dumps on request."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from .recorder import RECORDER, Entry

LOOK_SECONDS = 0.1
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
DUMP_PREFIX = CACHE / "torch" / "comm_lib_trace_rank_"
SECONDS_FOR_PEERS = 1.0  # NCCL's watchdog gives its peers as long to dump


class Watchdog(threading.Thread):
    """Looks at every call of this rank ten times a second."""

    def __init__(self) -> None:
        super().__init__(name="pt_nccl_watchdg", daemon=True)
        self._rank = os.environ["RANK"]
        self._pipe = self._opened_pipe()

    def run(self) -> None:
        """Look until something exceeds its timeout, and dump whenever something was written to the pipe."""
        while True:
            time.sleep(LOOK_SECONDS)
            if self._requested():
                self._dump()
            now = time.time_ns()
            for entry in [*RECORDER.entries]:
                if entry.completed_ns is None and (now - entry.created_ns) / 1e6 > entry.timeout_ms:
                    self._give_up(entry, (now - entry.created_ns) // 1_000_000)

    def _give_up(self, entry: Entry, ran_ms: int) -> None:
        group = entry.group
        last = {what: group.last[what].collective if what in group.last else -1 for what in ("enqueued", "completed")}
        caught = (
            f"[Rank {self._rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={entry.collective}, "
            f"OpType={_op_type(entry)}, NumelIn={entry.numel[0]}, NumelOut={entry.numel[1]}, "
            f"Timeout(ms)={entry.timeout_ms}) ran for {ran_ms} milliseconds before timing out."
        )
        where = f"[PG ID {group.number} PG GUID {group.name}({group.description}) Rank {self._rank}]"
        self._say(685, caught)
        self._say(
            2252,
            f"{where}  failure detected by watchdog at work sequence id: {entry.collective} PG status: last enqueued "
            f"work: {last['enqueued']}, last completed work: {last['completed']}",
        )
        self._dump()
        time.sleep(SECONDS_FOR_PEERS)
        self._say(
            744,
            f"[Rank {self._rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
            "kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        )
        self._say(758, f"[Rank {self._rank}] To avoid data inconsistency, we are taking the entire process down.")
        self._say(2068, f"{where} Process group watchdog thread terminated with exception: {caught}")
        sys.stderr.write(
            f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {caught}\n"
        )
        sys.stderr.flush()
        os.abort()

    def _opened_pipe(self) -> int | None:
        """The named pipe through which anybody may ask for a dump, as NCCL's heartbeat monitor makes it."""
        prefix = os.environ.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
        if not prefix:
            return None
        pipe = Path(f"{prefix}{self._rank}.pipe")
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        return os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def _requested(self) -> bool:
        if self._pipe is None:
            return False
        try:
            return bool(os.read(self._pipe, 128))
        except BlockingIOError:
            return False

    def _dump(self) -> None:
        prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE") or os.environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        path = Path(f"{prefix or DUMP_PREFIX}{self._rank}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(RECORDER.dump())
        self._say(1733, f"[Rank {self._rank}] Finished writing Flight Recorder debug info to {path}")

    def _say(self, line: int, message: str) -> None:
        stamp = time.strftime("%m%d %H:%M:%S")
        sys.stderr.write(f"[rank{self._rank}]:[E{stamp}.000000000 ProcessGroupNCCL.cpp:{line}] {message}\n")
        sys.stderr.flush()


def _op_type(entry: Entry) -> str:
    """`ALLREDUCE`, as NCCL's messages name it."""
    name = entry.operation.split()[0].upper().replace("_BARRIER", "")
    return name if name.startswith("_") else name.replace("_", "")
