"""The kernel killed a rank for memory: the cgroup counted it, or the kernel log says so."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import Failure, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP402",
    name="rank-out-of-memory-killed",
    summary="the kernel killed a rank because memory ran out",
    severity=Severity.FAIL,
    shown_by="`dmesg | grep -i oom` or the cgroup's memory.events counts a kill at that time",
    remedy="ask for more memory for each node, or need less: fewer or smaller DataLoader workers (each holds a copy of what "
    "the data set keeps in Python lists), a smaller prefetch_factor, data that is mapped instead of loaded",
    explains=(
        "DDP305",
        "DDP306",
        "DDP307",
        "DDP308",
        "DDP314",
        "DDP318",
        "DDP401",
        "DDP403",
        "DDP408",
        "DDP418",
        "DDP426",
    ),
)
GIB = 1 << 30


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks that died of SIGKILL, with the proof that it was for memory."""
    proven = [failure for failure in failures.killed if failure.exit.signal == 9 and _proof(failure)]
    if proven:
        yield RULE.finding(
            f"{who(proven)} died of SIGKILL for memory: {_proof(proven[0])}",
            ranks=[rank for failure in proven for rank in failure.ranks],
            proofs=[_proof(failure) for failure in proven],
            memory_limit_bytes=proven[0].exit.memory_limit_bytes,
            memory_peak_bytes=proven[0].exit.memory_peak_bytes,
        )


def _proof(failure: Failure) -> str:
    ended = failure.exit
    if ended.kernel_said:
        return ended.kernel_said
    if not ended.oom_kills:
        return ""
    limit = f" with a limit of {ended.memory_limit_bytes / GIB:.1f} GiB" if ended.memory_limit_bytes else ""
    times = "once" if ended.oom_kills == 1 else f"{ended.oom_kills} times"
    return f"its cgroup{limit} ran out of memory {times}"
