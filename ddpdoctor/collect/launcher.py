"""The launcher that started this process, from its variables."""

from __future__ import annotations

from typing import Any

from ddpdoctor.collect.world import World
from ddpdoctor.evidence import Missing


def collect(world: World) -> list[Any]:
    """`Launch`, or that there is none."""
    return [world.launch or Missing(kind="Launch", reason="no launcher started this process")]
