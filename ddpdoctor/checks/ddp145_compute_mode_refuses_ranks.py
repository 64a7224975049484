"""A GPU's compute mode refuses a process.

A rank could make no context on this GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_values import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP145",
    name="compute-mode-refuses-ranks",
    summary="a GPU's compute mode refuses a process",
    severity=Severity.FAIL,
    remedy="set the default mode as root: `nvidia-smi -c 0`",
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding a GPU that refuses everybody, or whose one place is taken already."""
    for host, gpu, mode in readable(gpus, "compute_mode", lambda gpu: gpu.compute_mode):
        taken = mode == "exclusive-process" and bool(gpu.processes)
        if mode == "prohibited" or taken:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} is in compute mode {mode}" + (" and taken already" if taken else ""),
                severity=Severity.WARN if taken else Severity.FAIL,
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                mode=mode,
            )
