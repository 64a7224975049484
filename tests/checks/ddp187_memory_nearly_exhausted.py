from ddpdoctor.evidence.limits import Memory
from tests.checks import Sick, one_host

GIB = 1 << 30

SICK = (
    Sick(
        evidence=one_host(
            Memory(total_bytes=64 * GIB, used_bytes=20 * GIB, limit_bytes=16 * GIB, limit_used_bytes=15 * GIB)
        ),
        says="the container on host-a uses 15.0 of 16.0 GiB (94%)",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(Memory(total_bytes=64 * GIB, used_bytes=60 * GIB)),
        says="host-a uses 60.0 of 64.0 GiB (94%)",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(Memory(total_bytes=64 * GIB, used_bytes=20 * GIB, swap_used_bytes=8 * GIB)),
        says="host-a has 8.0 GiB swapped out of 64.0 GiB",
        hosts=("host-a",),
    ),
)
HEALTHY = (
    one_host(Memory(total_bytes=64 * GIB, used_bytes=20 * GIB, limit_bytes=16 * GIB, limit_used_bytes=8 * GIB)),
    one_host(Memory(total_bytes=64 * GIB, used_bytes=57 * GIB, swap_used_bytes=GIB)),
)
