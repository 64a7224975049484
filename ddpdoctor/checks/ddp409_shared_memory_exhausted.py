"""Shared memory (/dev/shm) was full: DataLoader workers hand batches over through it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP409",
    name="shared-memory-exhausted",
    summary="shared memory (/dev/shm) was full, through which DataLoader workers and NCCL hand over data",
    severity=Severity.FAIL,
    shown_by="`df /dev/shm` in the container shows it full or 64 MB large",
    remedy="give the container a larger one (`docker run --shm-size=16g`, or `--ipc=host`; in Kubernetes an emptyDir of medium "
    "Memory at /dev/shm), or use fewer workers and a smaller prefetch_factor",
    explains=(
        "DDP306",
        "DDP307",
        "DDP308",
        "DDP314",
        "DDP318",
        "DDP401",
        "DDP403",
        "DDP408",
        "DDP418",
        "DDP420",
        "DDP426",
    ),
    errors=(
        ErrorPattern(
            regex=r"unable to (?:allocate|open|mmap|resize) shared memory(?!.{0,200}Too many open files)|"
            r"unable to (?:mmap \d+ bytes from|write to) file "
            r"</torch|killed by signal: Bus error|/dev/shm.{0,300}No space left|No space left.{0,300}/dev/shm|[Bb]us error "
            r"encountered in worker|failed to extend /dev/shm|creating shared memory segment|insufficient shared "
            r"memory|posix_fallocate failed ?: No space left",
        ),
    ),
)
GIB = 1 << 30


def check(failures: Failures, memory: PerRank[SharedMemory] | None) -> Iterator[Finding]:
    """The ranks whose shared memory ran out, and the size of /dev/shm where it is known."""
    found = failures.of("DDP409") or tuple(failure for failure in failures.of("DDP420") if failure.in_shared_memory)
    if not found:
        return
    ranks = unique_ranks(found)
    sizes = {entry.rank: entry.value.size_bytes for entry in memory or ()}
    size = next((sizes[rank] for rank in ranks if rank in sizes), None) or next(iter(sizes.values()), None)
    size_text = f", {size / GIB:.2g} GiB" if size is not None else ""
    words = found[0].text.partition("\n")[0].strip()
    yield RULE.finding(
        f"shared memory (/dev/shm{size_text}) was full on {who(found)}: {words}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where()],
        size_bytes=size,
    )
