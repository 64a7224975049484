"""NCCL is older than 2.24 and has no RAS service that reports a missing rank.

Newer libraries answer questions about a stuck job.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.version_numbers import version_numbers
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP109",
    name="nccl-without-ras",
    summary="NCCL is older than 2.24 and has no RAS service that reports a missing rank",
    severity=Severity.INFO,
    remedy="upgrade torch to a build with NCCL 2.24 or newer; then `ncclras` shows the missing rank of a stuck job",
    background=True,
)

RAS_SINCE = (2, 24)  # NCCL user guide, RAS


def check(torches: PerRank[TorchBuild]) -> Iterator[Finding]:
    """One finding per host whose NCCL is older than the RAS service."""
    if all(entry.value.nccl_loaded is None for entry in torches):
        raise SkipCheck("torch loads no NCCL on this host")
    for host in torches.hosts():
        loaded = host.value.nccl_loaded
        if loaded is not None and () < version_numbers(loaded, 2) < RAS_SINCE:
            yield RULE.finding(
                f"NCCL {loaded} on {host.host} is older than 2.24 and has no RAS service",
                hosts=(host.host,),
                ranks=host.ranks,
                loaded=loaded,
            )
