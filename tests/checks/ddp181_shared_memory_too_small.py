from ddpdoctor.evidence.limits import SharedMemory
from tests.checks import Sick, one_host, ranks


def shm(mebibytes: int) -> SharedMemory:
    return SharedMemory(size_bytes=mebibytes << 20, free_bytes=mebibytes << 20)


SICK = (
    Sick(
        evidence=one_host(shm(64)),
        says="host-a has 64 MiB of /dev/shm; 1024 MiB are advised for 1 local rank",
        hosts=("host-a",),
    ),
    Sick(
        evidence=ranks(*[shm(2048)] * 8, per_host=8),
        says="host-a has 2048 MiB of /dev/shm; 4096 MiB are advised for 8 local ranks",
        hosts=("host-a",),
    ),
)
HEALTHY = (one_host(shm(1024)), ranks(*[shm(4096)] * 8, per_host=8))
