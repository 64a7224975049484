"""Dead processes left files of torch or NCCL in /dev/shm."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP182",
    name="stale-shared-memory",
    summary="files of dead processes fill /dev/shm",
    severity=Severity.WARN,
    remedy="delete them when no job runs on the host: `find /dev/shm -user $USER \\( -name 'torch_*' -o -name 'nccl-*' "
    "\\) -delete`",
    background=True,
)

MANY_FILES = 100  # a killed job of eight ranks with eight loader workers each leaves fewer
LARGE_SHARE = 0.1  # of the size of /dev/shm


def check(shared_memory: PerRank[SharedMemory]) -> Iterator[Finding]:
    """One finding for each host with more than 100 stale files, or with stale files in more than a tenth of /dev/shm."""
    for each in shared_memory.hosts():
        shm = each.value
        if shm.stale_files > MANY_FILES or shm.stale_bytes > LARGE_SHARE * shm.size_bytes:
            yield RULE.finding(
                f"{shm.stale_files} files of dead processes occupy {shm.stale_bytes >> 20} of "
                f"{shm.size_bytes >> 20} MiB of /dev/shm on {each.host}",
                hosts=(each.host,),
                details=(f"for example {', '.join(shm.examples)}",) if shm.examples else (),
                files=shm.stale_files,
                bytes=shm.stale_bytes,
            )
