"""What `import torch` gives, asked in a process of its own: it takes seconds, and hangs on a sick driver."""

from __future__ import annotations

from typing import Any

from ddpdoctor.collect.world import World
from ddpdoctor.evidence.torch_build import NcclLibraries, TorchBuild

DEADLINE_SECONDS = 60.0  # a cold import from a network file system takes up to half a minute


def collect(world: World) -> list[Any]:
    """`TorchBuild` and `NcclLibraries`, or why there is none."""
    return world.ask_probe(
        "torch_build.py", TorchBuild, NcclLibraries, deadline_seconds=DEADLINE_SECONDS, subject="`import torch`"
    )
