"""The GPUs through NVML. `probes/gpus.py` asks it in a process of its own: NVML hangs where the driver does."""

from __future__ import annotations

from typing import Any

from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.host.host_access import HostAccess

DEADLINE_SECONDS = 5.0  # eight healthy GPUs answer within one second; without persistence mode within three


def collect(access: HostAccess) -> list[Any]:
    """`Gpus`, or why NVML tells nothing."""
    return access.ask_probe("gpus.py", Gpus, deadline_seconds=DEADLINE_SECONDS, subject="NVML")
