"""The GPUs through NVML, asked in a process of its own: NVML hangs where the driver does."""

from __future__ import annotations

from typing import Any

from ddpdoctor.collect.world import World
from ddpdoctor.evidence.gpus import Gpus

DEADLINE_SECONDS = 5.0  # eight healthy GPUs answer within one second; without persistence mode within three


def collect(world: World) -> list[Any]:
    """`Gpus`, or why NVML tells nothing."""
    return world.ask_probe("gpus.py", Gpus, deadline_seconds=DEADLINE_SECONDS, subject="NVML")
