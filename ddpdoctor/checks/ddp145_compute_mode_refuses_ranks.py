"""A GPU's compute mode rejects processes.

A rank cannot create a CUDA context on this GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP145",
    name="compute-mode-refuses-ranks",
    summary="a GPU's compute mode rejects processes",
    severity=Severity.FAIL,
    shown_by="`nvidia-smi -q -d COMPUTE` shows Exclusive_Process or Prohibited, or another process is on the GPU",
    remedy="set the default mode as root: `nvidia-smi -c 0`",
    explains=("DDP401",),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"(?P<said>all CUDA-capable devices are busy or unavailable)",
            sentence="no GPU was free{on}: {said}",
            remedy="end the other process on this GPU (`nvidia-smi`), or set the compute mode back: `nvidia-smi -c DEFAULT`",
        ),
    ),
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU that refuses everybody, or whose one place is taken already."""
    for host, gpu, mode in readable(gpus, "compute_mode", lambda gpu: gpu.compute_mode):
        taken = mode == "exclusive-process" and bool(gpu.processes)
        if mode == "prohibited" or taken:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} is in compute mode {mode}"
                + (", and it is already in use" if taken else ""),
                severity=Severity.WARN if taken else Severity.FAIL,
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                mode=mode,
            )
