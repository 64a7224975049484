"""A GPU has had memory errors that ECC could not correct.

Results computed since are not to be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_values import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP127",
    name="uncorrected-memory-errors",
    summary="a GPU has had memory errors that ECC could not correct",
    severity=Severity.FAIL,
    remedy="take the GPU out of service: `nvidia-smi -r -i INDEX` resets it; replace it when the count comes back",
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding a GPU with uncorrected errors since the driver was loaded."""
    for host, gpu, errors in readable(gpus, "ecc_uncorrected", lambda gpu: gpu.ecc_uncorrected):
        if errors > 0:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} has {errors} uncorrected ECC errors since the driver was loaded",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                errors=errors,
            )
