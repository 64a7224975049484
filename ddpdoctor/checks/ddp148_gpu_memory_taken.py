"""GPU memory is in use before the job starts.

The job will run out of memory on this rank first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP148",
    name="gpu-memory-taken",
    summary="GPU memory is in use before the job starts",
    severity=Severity.WARN,
    remedy="find the process with `fuser -v /dev/nvidia*` on the host; if there is none, reset the GPU",
    background=True,
)

WARN_BYTES = 500 * 2**20
FAIL_BYTES = 2 * 2**30  # the limit that AMD's Primus uses in its node check


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU whose memory is in use, beside what the driver keeps for itself."""
    for host, gpu, used in readable(gpus, "memory_used_bytes", lambda gpu: gpu.memory_used_bytes):
        if used > WARN_BYTES:
            yield RULE.finding(
                f"{used / 2**30:.1f} GiB of the memory of GPU {gpu.index} of {host.host} are in use",
                severity=Severity.FAIL if used >= FAIL_BYTES else Severity.WARN,
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                used_bytes=used,
            )
