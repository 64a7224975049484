"""The driver unloads between jobs: every start is slow and settings are lost.

The first CUDA call of every rank waits for the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP146",
    name="persistence-mode-off",
    summary="the driver unloads between jobs: every start is slow and settings are lost",
    severity=Severity.WARN,
    remedy="enable it as root: `systemctl enable --now nvidia-persistenced`, or `nvidia-smi -pm 1`",
    background=True,
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per host, with its GPUs that are without persistence."""
    off = grouped(
        (host.host, gpu.index)
        for host, gpu, persistent in readable(gpus, "persistence", lambda gpu: gpu.persistence)
        if not persistent
    )
    for host in gpus.hosts():
        indices = off.get(host.host)
        if indices is None:
            continue
        yield RULE.finding(
            f"persistence mode is off on {len(indices)} of {len(host.value.gpus)} GPUs of {host.host}",
            hosts=(host.host,),
            ranks=host.ranks,
            gpus=indices,
        )
