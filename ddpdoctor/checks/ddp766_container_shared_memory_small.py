"""DDP766: a manifest gives a container with ranks the default shared memory, or little more."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, Pods, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.evidence.scripts import Container
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP766",
    name="container-shared-memory-small",
    summary="a container that runs ranks has too little shared memory for NCCL and loader workers",
    severity=Severity.WARN,
    remedy="mount an emptyDir with `medium: Memory` at /dev/shm in Kubernetes; in docker-compose set "
    "`shm_size: 8gb` or `ipc: host`",
    leads_to=("DDP409", "DDP181"),
)
SMALLEST_BYTES = 1 << 30  # NCCL's guide advises --shm-size=1g


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each container with ranks and less than 1 GiB: information where it runs one rank."""
    for script in launch.scripts:
        for start in script.torchruns:
            box = start.container
            if box is None or box.shared_memory_bytes is None or box.shared_memory_bytes >= SMALLEST_BYTES:
                continue
            limit = "" if box.given else "the default, "
            yield RULE.finding(
                f"{box.program} gives the container {limit}{box.shared_memory_bytes >> 20} MiB of /dev/shm",
                where=[place(script.path, start.line)],
                remedy="add `--shm-size=8g`, or `--ipc=host`",
                severity=Severity.INFO if start.ranks_per_node == 1 else Severity.WARN,
                size_bytes=box.shared_memory_bytes,
            )
    for pods in launch.manifests:
        for container, starts in pods.torchruns:
            size = container.shared_memory_bytes
            if size is None or size >= SMALLEST_BYTES or not (starts or container.gpus):
                continue
            where = container.shared_memory_line or container.line
            limit = "the default, " if container.shared_memory_line is None else ""
            yield RULE.finding(
                f"{container.name or 'the container'} has {limit}{size >> 20} MiB of /dev/shm",
                where=[place(pods.manifest.path, where)],
                severity=Severity.WARN if _several(pods, container, starts) else Severity.INFO,
                size_bytes=size,
            )


def _several(pods: Pods, container: Container, starts: tuple[Torchrun, ...]) -> bool:
    """Whether several ranks share it, which NCCL needs it for."""
    ranks = [pods.ranks(container, start) or 1 for start in starts]
    return max([*ranks, container.gpus or 1]) > 1
