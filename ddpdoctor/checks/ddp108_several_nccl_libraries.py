"""A process can load two different NCCL libraries.

Which NCCL a process gets depends on who loads first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.torch_build import NcclLibraries
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP108",
    name="several-nccl-libraries",
    summary="a process can load two different NCCL libraries",
    severity=Severity.WARN,
    remedy="keep one NCCL: uninstall the other, or remove its directory from LD_LIBRARY_PATH and LD_PRELOAD",
    background=True,
)

AHEAD_OF_TORCH = ("LD_PRELOAD", "LD_LIBRARY_PATH")


def check(libraries: PerRank[NcclLibraries]) -> Iterator[Finding]:
    """One finding per host where another version stands ahead of torch's own, or two are in one process already.

    A second library that only the linker's cache knows is harmless: torch's wheel finds its own first.
    """
    if not any(entry.value.found for entry in libraries):
        raise SkipCheck("no libnccl.so on this host")
    for host in libraries.hosts():
        near = [one for one in host.value.found if one.via in (*AHEAD_OF_TORCH, "loaded by torch")]
        if len({one.version for one in near}) > 1:
            listed = ", ".join(f"{one.version or 'unreadable'} ({one.path}, {one.via})" for one in near)
            yield RULE.finding(
                f"{host.host} has {len(near)} NCCL libraries that a process can load: {listed}",
                hosts=(host.host,),
                ranks=host.ranks,
                paths=[one.path for one in near],
            )
