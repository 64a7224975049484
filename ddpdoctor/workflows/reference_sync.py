"""Evidence about replicas: the reference job compared on every rank."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.launch.attendance import WaitingProcess
from ddpdoctor.launch.launch_failure import why_ranks_failed
from ddpdoctor.launch.ranks import our_file, run_ranks


def compare_reference(
    *,
    nproc: int | None,
    deadline_seconds: float,
    on_wait: Callable[[WaitingProcess], None] | None = None,
) -> tuple[Evidence, bool]:
    """The comparison after a few steps of the reference job, and whether this process is the one that reports.

    Raises:
        UsageError: `nproc` is out of range, or given under a launcher, or needed and absent.
    """
    ran = run_ranks(
        our_file("probes", "verify_sync.py"),
        (),
        nproc=nproc,
        deadline_seconds=deadline_seconds,
        on_wait=on_wait,
    )
    for result in ran.results:
        job = tuple(msgspec.convert(fact, Replicas) for fact in result["replicas"])
        return Evidence(job=job, undecided=tuple(result["undecided"])), ran.speaks
    reason = ran.lacking or why_ranks_failed(ran.ended, "the comparison")
    undecided = (reason,) if ran.speaks or ran.ended.code else ()
    return Evidence(missing=(Missing(kind="Replicas", reason=reason),), undecided=undecided), ran.speaks
