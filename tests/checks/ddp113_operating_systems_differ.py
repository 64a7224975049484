"""DDP113 operating-systems-differ."""

from __future__ import annotations

from ddpdoctor.evidence.host import Host
from tests.checks import Sick, ranks


def host(kernel: str) -> Host:
    return Host(os="Ubuntu 24.04.2 LTS", kernel=kernel, libc="glibc 2.39")


SICK = (
    Sick(
        evidence=ranks(host("6.8.0-45"), host("6.8.0-45"), host("5.15.0-91")),
        says="the kernel is 6.8.0-45 on ranks 0-1, 5.15.0-91 on rank 2",
        ranks=(2,),
        hosts=("host-c",),
        measured={"values": {"6.8.0-45": [0, 1], "5.15.0-91": [2]}},
    ),
)
HEALTHY = (ranks(host("6.8.0-45"), host("6.8.0-45")),)
