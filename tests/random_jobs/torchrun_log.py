"""The log that torchrun leaves of a job whose collectives timed out."""

from __future__ import annotations

from math import prod

from tests.random_jobs.cases import Case
from tests.random_jobs.run import Event

NAMES = {
    "all_reduce": "ALLREDUCE",
    "_all_gather_base": "_ALLGATHER_BASE",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "all_to_all": "ALLTOALL",
    "broadcast": "BROADCAST",
}
FIRST_PID = 4000


def torchrun_log(case: Case) -> str:
    """What the watchdogs of the ranks that waited say, then torchrun about the first that ended."""
    oldest = {rank: found for rank, events in enumerate(case.run.events) if (found := _oldest(events)) is not None}
    waiting = [rank for rank in oldest if rank not in case.lost]
    lines = [_timed_out(oldest[rank], rank) for rank in waiting]
    lines += [
        f"[rank{rank}]: terminate called after throwing an instance of 'c10::DistBackendError'" for rank in waiting
    ]
    first = waiting[0]
    torchrun = "1122 10:31:14.900000 3999 torch/distributed/elastic/multiprocessing/api.py"
    lines += [
        f"W{torchrun}:908] Sending process {FIRST_PID + rank} closing signal SIGTERM"
        for rank in range(case.run.mesh.world)
        if rank != first and rank not in case.lost
    ]
    pid = FIRST_PID + first
    lines += [
        f"E{torchrun}:882] failed (exitcode: -6) local_rank: {first} (pid: {pid}) of binary: /opt/venv/bin/python",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-22_10:31:15",
        "  host      : node0",
        f"  rank      : {first} (local_rank: {first})",
        f"  exitcode  : -6 (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : Signal 6 (SIGABRT) received by PID {pid}",
        "============================================================",
    ]
    return "\n".join(lines) + "\n"


def _oldest(events: list[Event]) -> Event | None:
    outstanding = (event for event in events if not event.through and event.op.peer is None)
    return min(outstanding, key=lambda event: event.created, default=None)


def _timed_out(event: Event, rank: int) -> str:
    size = prod(event.op.sizes)
    work = (
        f"WorkNCCL(SeqNum={event.number}, OpType={NAMES.get(event.op.name, 'ALLREDUCE')}, NumelIn={size}, NumelOut={size}, "
        "Timeout(ms)=300000)"
    )
    return (
        f"[rank{rank}]:[E1122 10:31:12.{100000 + rank} {FIRST_PID + rank} ProcessGroupNCCL.cpp:688] "
        f"[Rank {event.group.ranks.index(rank)}] Watchdog caught collective operation timeout: {work} ran for 300014 "
        "milliseconds before timing out."
    )
