"""The NVIDIA driver is older than torch's CUDA needs.

The first call into CUDA fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.version_numbers import version_numbers
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP105",
    name="driver-too-old-for-cuda",
    summary="the NVIDIA driver is older than torch's CUDA needs",
    severity=Severity.FAIL,
    shown_by="the text names the driver; `nvidia-smi` shows a CUDA version below `torch.version.cuda`",
    remedy="upgrade the driver, or install a torch built for an older CUDA",
    explains=(
        "DDP401",
        "DDP408",
        "DDP418",
    ),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"(?P<said>API call is not supported in the installed CUDA driver|CUDA driver version is insufficient "
            r"for CUDA runtime version|NVIDIA driver on your system is too old|provided PTX was compiled with an "
            r"unsupported toolchain)",
            sentence="the NVIDIA driver is too old for this build of torch or NCCL{on}: {said}",
        ),
    ),
)

MINIMUM_DRIVER = {11: 450, 12: 525, 13: 580}  # CUDA compatibility guide, minor version compatibility


def check(torches: PerRank[TorchBuild], gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per host whose driver's branch is below the minimum of torch's CUDA major version."""
    drivers = {host.host: host.value.driver for host in gpus.hosts()}
    for host in torches.hosts():
        cuda, driver = host.value.cuda, drivers.get(host.host)
        if cuda is None or driver is None:
            continue
        needed = next((MINIMUM_DRIVER.get(major) for major in version_numbers(cuda)), None)
        if needed is not None and () < version_numbers(driver) < (needed,):
            yield RULE.finding(
                f"the driver on {host.host} is {driver}; CUDA {cuda} of torch {host.value.version} needs {needed} or newer",
                hosts=(host.host,),
                ranks=host.ranks,
                driver=driver,
                needed=needed,
            )
