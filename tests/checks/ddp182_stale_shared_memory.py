from ddpdoctor.evidence.limits import SharedMemory
from tests.checks import Sick, one_host


def shm(files: int, mebibytes: int) -> SharedMemory:
    return SharedMemory(
        size_bytes=8 << 30,
        free_bytes=4 << 30,
        stale_files=files,
        stale_bytes=mebibytes << 20,
        examples=("torch_7_1_0",),
    )


SICK = (
    Sick(
        evidence=one_host(shm(101, 3)),
        says="101 files of dead processes occupy 3 of 8192 MiB of /dev/shm on host-a",
        hosts=("host-a",),
        measured={"files": 101, "bytes": 3145728},
    ),
    Sick(
        evidence=one_host(shm(2, 1024)),
        says="2 files of dead processes occupy 1024 of 8192 MiB of /dev/shm on host-a",
        hosts=("host-a",),
        measured={"files": 2, "bytes": 1073741824},
    ),
)
HEALTHY = (one_host(shm(0, 0)), one_host(shm(100, 10)))
