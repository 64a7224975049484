"""Fewer GPUs are usable than the host has, or than its ranks need.

A GPU is lost, hidden, or never was there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Environment, Host
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP125",
    name="gpus-missing",
    summary="fewer GPUs are usable than the host has, or than its ranks need",
    severity=Severity.FAIL,
    shown_by="`nvidia-smi -L` lists fewer GPUs than the host has, or than ranks were started on it",
    remedy="start at most as many ranks as GPUs; for a lost GPU look for `Xid` in `dmesg`, then reset it or reboot",
    explains=(
        "DDP401",
        "DDP408",
        "DDP415",
        "DDP418",
        "DDP423",
    ),
    background=True,
    errors=(
        ErrorPattern(
            regex=r"(?P<host>[\w.-]{1,60}) kernel: NVRM: Xid \(PCI:(?P<pci>[\w:.]{1,20})\): 79\b",
            sentence="the GPU at PCI address {pci} of {host} was lost{on}: it has fallen off the bus (Xid 79)",
        ),
        ErrorPattern(
            regex=r"NVRM: Xid \(PCI:(?P<pci>[\w:.]{1,20})\): 79\b",
            sentence="the GPU at PCI address {pci} was lost{on}: it has fallen off the bus (Xid 79)",
        ),
        ErrorPattern(
            regex=r"NVRM: (?:The NVIDIA )?GPU (?P<pci>[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}(?:\.\d)?):? .{0,200}fallen off the bus",
            sentence="the GPU at PCI address {pci} was lost{on}: it has fallen off the bus",
        ),
        ErrorPattern(
            regex=r"\b[Ee]rror \(?802\)?[^\n]{0,20}(?P<said>system not yet initialized)",
            sentence="CUDA cannot be used{on}: {said} (error 802)",
            remedy="start the fabric manager, without which GPUs on an NVSwitch cannot be used (`systemctl status "
            "nvidia-fabricmanager`); its version must be that of the driver",
        ),
        ErrorPattern(
            regex=r"(?P<said>(?:GPU has )?fallen off the bus|Unable to determine the device handle for GPU ?[\w:.]*)",
            sentence="a GPU was lost{on}: {said}",
        ),
        ErrorPattern(
            regex=r"(?P<said>invalid device ordinal|No CUDA GPUs are available|no CUDA-capable device is detected|"
            r"CUDA_ERROR_(?:NO|INVALID)_DEVICE)",
            sentence="{who} asked for a GPU that it cannot see: {said}",
            remedy="start at most as many ranks as GPUs on each node (`--nproc-per-node`), and let CUDA_VISIBLE_DEVICES "
            "list one for each; with one GPU for each process use index 0",
        ),
    ),
)

ALLOTTED = {  # where one of these is set, a scheduler or a person may have kept GPUs from this process on purpose
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "KUBERNETES_SERVICE_HOST",
}  # fmt: skip


def check(
    gpus: PerRank[Gpus],
    hosts: PerRank[Host] | None,
    torches: PerRank[TorchBuild] | None,
    launches: PerRank[Launch] | None,
    environments: PerRank[Environment] | None,
) -> Iterator[Finding]:
    """One finding per host and reason: a GPU does not answer, NVML or torch sees fewer, or there are more ranks."""
    devices = {host.host: len(host.value.nvidia_devices) for host in hosts.hosts()} if hosts else {}
    torch_of = {host.host: host.value for host in torches.hosts()} if torches else {}
    given = {host.host: {*host.value.variables} & ALLOTTED for host in environments.hosts()} if environments else {}
    needs = {host.host: host.value.local_world_size or 0 for host in launches.hosts()} if launches else {}
    for host in gpus.hosts():
        listed = host.value.gpus
        lost = [gpu for gpu in listed if "handle" in gpu.unread]
        usable = len(listed) - len(lost)
        torch = torch_of.get(host.host)
        shown = 0 if given.get(host.host) else devices.get(host.host, 0)
        needed = needs.get(host.host, 0) if torch is not None and torch.cuda else 0
        for message in (
            *(f"GPU {gpu.index} of {host.host} does not answer: {gpu.unread['handle']}" for gpu in lost),
            *_fewer(f"NVML on {host.host} sees", len(listed), shown, "GPUs that have a device file"),
            *_fewer(f"{host.host} has", usable, needed, "GPUs that its ranks need"),
        ):
            yield RULE.finding(message, hosts=(host.host,), ranks=host.ranks, usable=usable)
        if usable and torch is not None and torch.cuda and torch.cuda_devices == 0 and not given.get(host.host):
            yield RULE.finding(
                f"torch on {host.host} sees none of the {usable} GPUs",
                hosts=(host.host,),
                ranks=host.ranks,
                usable=usable,
                remedy="`python -c 'import torch; torch.cuda.init()'` shows the error",
            )


def _fewer(who: str, have: int, want: int, what: str) -> list[str]:
    return [f"{who} {have} of the {want} {what}"] if have < want else []
