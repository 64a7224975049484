"""Evidence about replicas: the known-good job compared on every rank."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.launch.ranks import our_file, run_ranks

LAST_LINES = 3


def compare_reference(
    arguments: Sequence[str] = (), *, nproc: int | None, deadline_seconds: float
) -> tuple[Evidence, bool]:
    """The comparison after a few steps of the known-good job, and whether this process is the one that speaks.

    Raises:
        UsageError: `nproc` is out of range, or given under a launcher, or needed and absent.
    """
    ran = run_ranks(our_file("probes", "verify_sync.py"), arguments, nproc=nproc, deadline_seconds=deadline_seconds)
    for result in ran.results:
        job = tuple(msgspec.convert(fact, Replicas) for fact in result["replicas"])
        return Evidence(job=job, undecided=tuple(result["undecided"])), ran.speaks
    ended = ran.ended
    said = "; ".join(line.strip() for line in ended.stderr.strip().splitlines()[-LAST_LINES:])
    how = f"was ended after {deadline_seconds:g} s" if ended.timed_out else f"ended with exit code {ended.code}"
    reason = f"the ranks compared nothing: the job {how}" + (f" ({said})" if said else "")
    undecided = (reason,) if ran.speaks or ended.code else ()
    return Evidence(missing=(Missing(kind="Replicas", reason=reason),), undecided=undecided), ran.speaks
