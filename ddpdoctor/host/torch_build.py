"""What `import torch` gives, asked in a process of its own: it takes seconds, and hangs on a sick driver."""

from __future__ import annotations

from typing import Any

from ddpdoctor.evidence.torch_build import NcclLibraries, TorchBuild
from ddpdoctor.host.host_access import HostAccess

DEADLINE_SECONDS = 60.0  # a cold import from a network file system takes up to half a minute


def collect(access: HostAccess) -> list[Any]:
    """`TorchBuild` and `NcclLibraries`, or why there is none."""
    return access.ask_probe(
        "torch_build.py", TorchBuild, NcclLibraries, deadline_seconds=DEADLINE_SECONDS, subject="`import torch`"
    )
