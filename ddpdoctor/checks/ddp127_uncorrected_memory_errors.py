"""A GPU has had memory errors that ECC could not correct.

Results computed since then cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

REMEDY = (
    "take this GPU out of service: `nvidia-smi -q -d ECC,ROW_REMAPPER` counts its errors, `nvidia-smi -r -i INDEX` resets it; "
    "replace it when the count comes back"
)
RULE = Rule(
    code="DDP127",
    name="uncorrected-memory-errors",
    summary="a GPU has had memory errors that ECC could not correct",
    severity=Severity.FAIL,
    shown_by="`nvidia-smi -q -d ECC` counts uncorrectable errors, `dmesg | grep Xid` shows 48, 63, 64, 94 or 95",
    remedy="take the GPU out of service: `nvidia-smi -r -i INDEX` resets it; replace it if the count rises again",
    explains=(
        "DDP401",
        "DDP403",
        "DDP408",
        "DDP418",
        "DDP423",
    ),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"(?P<host>[\w.-]{1,60}) kernel: NVRM: Xid \(PCI:(?P<pci>[\w:.]{1,20})\): (?P<xid>48|63|64|94|95)\b",
            sentence="the GPU at PCI address {pci} of {host} reported a memory error that ECC could not correct{on} (Xid {xid})",
            remedy=REMEDY,
        ),
        ErrorPattern(
            regex=r"(?P<said>uncorrectable ECC error encountered|[Uu]ncorrectable (?:DRAM|SRAM|memory) error|Xid .{0,60}: "
            r"(?:48|63|64|94|95),)",
            sentence="a GPU reported a memory error that ECC could not correct{on}: {said}",
            remedy=REMEDY,
        ),
    ),
)


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU with uncorrected errors since the driver was loaded."""
    for host, gpu, errors in readable(gpus, "ecc_uncorrected", lambda gpu: gpu.ecc_uncorrected):
        if errors > 0:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} has {errors} uncorrected ECC errors since the driver was loaded",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                errors=errors,
            )
