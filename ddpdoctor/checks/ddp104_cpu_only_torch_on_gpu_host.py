"""This host has NVIDIA GPUs, and its torch is built for CPUs only.

The job would run, on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Host
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP104",
    name="cpu-only-torch-on-gpu-host",
    summary="this host has NVIDIA GPUs, and its torch is built for CPUs only",
    severity=Severity.FAIL,
    remedy="install a CUDA build of torch: the selector on pytorch.org gives the command for the CUDA that `nvidia-smi` shows",
    background=True,
)


def check(torches: PerRank[TorchBuild], hosts: PerRank[Host], gpus: PerRank[Gpus] | None) -> Iterator[Finding]:
    """One finding per host that shows GPUs to a torch without CUDA and without ROCm."""
    counts = {host.host: len(host.value.nvidia_devices) for host in hosts.hosts()}
    if gpus is not None:  # NVML knows which of the device files a scheduler lets us use
        counts.update({host.host: len(host.value.gpus) for host in gpus.hosts()})
    for host in torches.hosts():
        torch = host.value
        count = counts.get(host.host, 0)
        if torch.version is None or torch.cuda or torch.hip or not count:
            continue
        yield RULE.finding(
            f"torch {torch.version} on {host.host} has no CUDA, but the host has {count} GPU{'s' if count > 1 else ''}",
            hosts=(host.host,),
            ranks=host.ranks,
            gpus=count,
        )
