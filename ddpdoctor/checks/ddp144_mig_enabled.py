"""A GPU is partitioned by MIG, and NCCL cannot combine its instances.

A rank sees one instance only.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP144",
    name="mig-enabled",
    summary="a GPU is partitioned by MIG, and NCCL cannot combine its instances",
    severity=Severity.WARN,
    remedy="disable MIG for the job: `nvidia-smi -i INDEX -mig 0` as root, with nothing running on the GPU",
    background=True,
)


def check(gpus: PerRank[Gpus], launches: PerRank[Launch] | None) -> Iterator[Finding]:
    """One finding per GPU in MIG mode: fail where several ranks were launched, which need whole GPUs."""
    several = launches is not None and any(entry.value.world_size > 1 for entry in launches)
    for host, gpu, on in readable(gpus, "mig", lambda gpu: gpu.mig):
        if on:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} is in MIG mode",
                severity=Severity.FAIL if several else Severity.WARN,
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
            )
