"""DDP104: the job would run, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Host
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP104",
    name="cpu-only-torch-on-gpu-host",
    summary="this host has NVIDIA GPUs, and its torch is built for CPUs only",
    severity=Severity.FAIL,
    remedy="install a CUDA build of torch: the selector on pytorch.org gives the command for the CUDA that `nvidia-smi` shows",
)


def check(torches: PerRank[TorchBuild], hosts: PerRank[Host]) -> Iterator[Finding]:
    """One finding a host that shows GPUs to a torch without CUDA and without ROCm."""
    machines = {host.host: host.value for host in hosts.hosts()}
    for host in torches.hosts():
        torch = host.value
        machine = machines.get(host.host)
        if torch.version is None or torch.cuda or torch.hip or machine is None or not machine.nvidia_devices:
            continue
        yield RULE.finding(
            f"torch {torch.version} on {host.host} has no CUDA, but the host has {len(machine.nvidia_devices)} GPU(s): "
            f"{', '.join(machine.nvidia_devices)}",
            hosts=(host.host,),
            ranks=host.ranks,
            gpus=len(machine.nvidia_devices),
        )
