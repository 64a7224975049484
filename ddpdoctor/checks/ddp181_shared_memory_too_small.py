"""The file system /dev/shm holds less than data loaders and NCCL on this host need."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP181",
    name="shared-memory-too-small",
    summary="the shared memory in /dev/shm is too small for the local ranks",
    severity=Severity.WARN,
    remedy="start the container with `--shm-size=8g` or `--ipc=host`; in Kubernetes mount an emptyDir with `medium: Memory`"
    " at /dev/shm",
    background=True,
)

DOCKER_DEFAULT_BYTES = 64 << 20  # what docker gives unasked; two loader workers of one image model fill it
SMALLEST_BYTES = 1 << 30  # NCCL's guide advises --shm-size=1g
BYTES_PER_RANK = 512 << 20  # DeepSpeed warns below 512 MiB


def check(shared_memory: PerRank[SharedMemory]) -> Iterator[Finding]:
    """One finding for each host whose /dev/shm is smaller than its ranks need; its total size counts, not what is free."""
    for host, ranks, shm in ((each.host, each.ranks, each.value) for each in shared_memory.hosts()):
        local = max(1, len(ranks))
        needed = max(SMALLEST_BYTES, BYTES_PER_RANK * local)
        if shm.size_bytes < needed:
            yield RULE.finding(
                f"{host} has {shm.size_bytes >> 20} MiB of /dev/shm; {needed >> 20} MiB are recommended for "
                f"{local} local {'rank' if local == 1 else 'ranks'}",
                hosts=(host,),
                severity=Severity.FAIL if shm.size_bytes <= DOCKER_DEFAULT_BYTES else Severity.WARN,
                size_bytes=shm.size_bytes,
                needed_bytes=needed,
                local_ranks=local,
            )
