"""A healthy job and sick ones, again and again on a busy machine: false alarms and wrong names are counted."""

from __future__ import annotations

import collections
import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.ward.cases import HEALTHY, Case
from tests.ward.jobs import torchrun, watch
from tests.ward.load import busy

HEALTHY_JOB = HEALTHY / "accumulates_with_no_sync.py"
PATIENCE = 30.0  # before a healthy job under load may be called stuck; what ddpdoctor itself takes at the least
DEADLINE = 300.0  # of one job, which takes a tenth of it on a free machine
RIGHT = "right"


def repeat(cases: Sequence[Case], times: int, nproc: int, *, side_by_side: int) -> int:
    """Print each false alarm and wrong name with what stood on the screen, then the counts; 1 where there was one.

    SIGINT and SIGTERM end it early, with the counts of the jobs that have ended by then.
    """
    said: collections.Counter[tuple[str, bool]] = collections.Counter()
    numbered = [(number, case) for number in range(times) for case in (None, *cases)]
    begin = time.monotonic()
    with busy(), _interruptible(), ThreadPoolExecutor(side_by_side) as pool:
        asked = [pool.submit(_once, number, case, nproc) for number, case in numbered]
        try:
            for done, future in enumerate(as_completed(asked), start=1):
                name, verdict, transcript = future.result()
                said[name, verdict == RIGHT] += 1
                if verdict != RIGHT:
                    print(f"{name}: {verdict}\n{transcript}", flush=True)
                if sys.stderr.isatty():
                    print(f"\r{done} of {len(asked)}", end="", file=sys.stderr)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"interrupted after {said.total()} of {len(asked)} jobs", flush=True)
    print(f"up to {times} times each, {nproc} ranks, all cores busy, {time.monotonic() - begin:.0f} s")
    for name in dict.fromkeys(name for name, _ in said):
        print(f"{name:<24} right {said[name, True]}, wrong {said[name, False]}")
    return int(any(not right for _, right in said))


def _once(number: int, case: Case | None, nproc: int) -> tuple[str, str, str]:
    """The job's name, what is wrong with what was said of it, and what stood on the screen; every rank has its turn."""
    culprit = number % nproc
    if case is None:
        watched = watch(torchrun(HEALTHY_JOB, nproc), stall_after=PATIENCE, deadline=DEADLINE)
        wrongs = [finding["message"] for finding in watched.report["findings"] if finding["severity"] != "info"]
        if watched.ended.code != 0 and not wrongs:
            wrongs = [f"exit code {watched.ended.code}"]
        return "healthy", "; ".join(wrongs) or RIGHT, watched.transcript
    watched = watch(torchrun(case.program, nproc, case.arguments(culprit)), culprit=culprit, deadline=DEADLINE)
    return case.name, "; ".join(case.wrongs(watched.report, culprit, nproc)) or RIGHT, watched.transcript


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, and SIGINT where a shell has us ignore it, raise KeyboardInterrupt meanwhile."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
