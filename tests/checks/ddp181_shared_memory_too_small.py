from ddpdoctor.evidence.limits import SharedMemory
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks


def shm(mebibytes: int) -> SharedMemory:
    return SharedMemory(size_bytes=mebibytes << 20, free_bytes=mebibytes << 20)


SICK = (
    Sick(
        evidence=one_host(shm(64)),
        says="host-a has 64 MiB of /dev/shm; 1024 MiB are recommended for 1 local rank",
        hosts=("host-a",),
        measured={"size_bytes": 67108864, "needed_bytes": 1073741824, "local_ranks": 1},
        severity=Severity.FAIL,
    ),
    Sick(
        evidence=ranks(*[shm(2048)] * 8, per_host=8),
        says="host-a has 2048 MiB of /dev/shm; 4096 MiB are recommended for 8 local ranks",
        hosts=("host-a",),
        measured={"size_bytes": 2147483648, "needed_bytes": 4294967296, "local_ranks": 8},
    ),
)
HEALTHY = (one_host(shm(1024)), ranks(*[shm(4096)] * 8, per_host=8))
