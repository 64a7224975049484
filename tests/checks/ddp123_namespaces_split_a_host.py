"""DDP123 namespaces-split-a-host."""

from __future__ import annotations

from ddpdoctor.evidence.host import Host
from tests.checks import Sick, ranks


def host(ipc: str, boot_id: str = "06058ed6") -> Host:
    return Host(os="Ubuntu 24.04", kernel="6.8.0", boot_id=boot_id, namespaces={"ipc": ipc, "net": "net:[1]"})


SICK = (
    Sick(
        evidence=ranks(host("ipc:[1]"), host("ipc:[2]"), per_host=2),
        says="ranks 0-1 share a machine but are in different IPC namespaces: rank 0 and rank 1",
        ranks=(0, 1),
        hosts=("host-a",),
        measured={"namespaces": {"ipc:[1]": [0], "ipc:[2]": [1]}},
    ),
)
HEALTHY = (ranks(host("ipc:[1]"), host("ipc:[1]"), per_host=2),)
