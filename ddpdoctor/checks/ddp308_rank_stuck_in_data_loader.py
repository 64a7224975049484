"""A rank waits for its data loader while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.callers import called_in
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence.frames import in_worker_loop, lines_in_worker
from ddpdoctor.evidence.process import ChildProcess
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP308",
    name="rank-stuck-in-data-loader",
    summary="a rank gets no batch from its data loader while its peers wait for it in a collective",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor hang` shows one rank in `next(loader)` while the others wait in a collective",
    remedy="look at the worker's line; give the DataLoader a `timeout=` so that it says so itself, and see whether the storage "
    "of that host answers",
    explains=("DDP314", "DDP408"),
)
STATES = {
    "R": "runs",
    "S": "sleeps",
    "D": "is in uninterruptible IO",
    "T": "is stopped",
    "t": "is stopped",
    "Z": "has died",
}


def check(hang: Hang) -> Iterator[Finding]:
    """One finding per rank: its workers and what they do are its own."""
    for activity in hang.culprits(Activity.DATA_LOADER):
        workers = (
            [child for child in activity.process.children if _is_worker(child)] if activity.process is not None else []
        )
        yield RULE.finding(
            f"{hang.said_of([activity])}; {hang.wait_for([activity])}",
            ranks=(activity.rank,),
            where=hang.where([activity]),
            details=[_describe(worker) for worker in workers] or [_without_workers(activity)],
            workers=[{"pid": worker.pid, "state": worker.state} for worker in workers],
            seconds=hang.seconds,
        )


def _is_worker(child: ChildProcess) -> bool:
    return child.kind == "data loader worker"


def _describe(worker: ChildProcess) -> str:
    lines = lines_in_worker(worker.stack)
    cpu = f", on CPU {100 * worker.cpu_share:.0f} %" if worker.cpu_share is not None else ""
    if not lines and in_worker_loop(worker.stack) and worker.state == "S":
        return f"its worker process {worker.pid} waits for work{cpu}"
    spot = f" in {lines[-1].function} ({lines[-1].file}:{lines[-1].line}){called_in(lines)}" if lines else ""
    return f"its worker process {worker.pid} {STATES.get(worker.state, worker.state)}{spot}{cpu}"


def _without_workers(activity: RankActivity) -> str:
    if activity.process is None:
        return "its worker processes could not be looked at"
    return "it has no worker process: they have died, or it loads the data itself (num_workers=0)"
