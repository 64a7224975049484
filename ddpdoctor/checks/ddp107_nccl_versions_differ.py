"""Ranks load different NCCL libraries, or one that torch was not built against.

Another libnccl than torch's own is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.rank_differences import difference
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.messages.majority import values_by_rank
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP107",
    name="nccl-versions-differ",
    summary="ranks load different NCCL libraries, or one that torch was not built against",
    severity=Severity.FAIL,
    remedy="remove LD_LIBRARY_PATH and LD_PRELOAD entries with another libnccl, or install the NCCL wheel that torch pins",
    background=True,
    explains=("DDP418",),
    errors=(
        ErrorPattern(
            regex=r"Mismatched NCCL version detected : rank (?P<one>\d{1,9}) version (?P<version>\d{1,9}) "
            r"rank (?P<other>\d{1,9}) version (?P<other_version>\d{1,9})",
            sentence="ranks load different versions of NCCL: {version} on rank {one}, {other_version} on rank {other}",
            remedy="install the same torch on all hosts; `ddpdoctor env` shows which NCCL each host loads, and from where: an "
            "entry of LD_LIBRARY_PATH or LD_PRELOAD may replace torch's own",
        ),
    ),
)


def check(torches: PerRank[TorchBuild]) -> Iterator[Finding]:
    """One finding for ranks that differ; else one a host that loads another version than torch was compiled against."""
    if all(entry.value.nccl_loaded is None for entry in torches):
        raise SkipCheck("torch loads no NCCL on this host")
    if len(torches) > 1 and (found := difference((entry.rank, entry.value.nccl_loaded) for entry in torches)):
        yield RULE.finding(f"NCCL is {values_by_rank(found)}", ranks=found.minority, versions=found.values)
        return
    for host in torches.hosts():
        loaded, compiled = host.value.nccl_loaded, host.value.nccl_compiled
        if loaded is not None and compiled is not None and loaded != compiled:
            path = host.value.libnccl[0] if host.value.libnccl else "an unknown file"
            yield RULE.finding(
                f"torch on {host.host} was built against NCCL {compiled} and loads {loaded} from {path}",
                severity=Severity.WARN,
                hosts=(host.host,),
                ranks=host.ranks,
                loaded=loaded,
                compiled=compiled,
            )
