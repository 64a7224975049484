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
        measured={"used_bytes": 16106127360, "limit_bytes": 17179869184},
    ),
    Sick(
        evidence=one_host(Memory(total_bytes=64 * GIB, used_bytes=60 * GIB)),
        says="host-a uses 60.0 of 64.0 GiB (94%)",
        hosts=("host-a",),
        measured={"used_bytes": 64424509440, "limit_bytes": 68719476736},
    ),
    Sick(
        evidence=one_host(Memory(total_bytes=64 * GIB, used_bytes=20 * GIB, swap_used_bytes=8 * GIB)),
        says="host-a has swapped out 8.0 GiB; its memory is 64.0 GiB",
        hosts=("host-a",),
        measured={"swap_used_bytes": 8589934592, "total_bytes": 68719476736},
    ),
)
HEALTHY = (
    one_host(Memory(total_bytes=64 * GIB, used_bytes=20 * GIB, limit_bytes=16 * GIB, limit_used_bytes=8 * GIB)),
    one_host(Memory(total_bytes=64 * GIB, used_bytes=57 * GIB, swap_used_bytes=GIB)),
)
