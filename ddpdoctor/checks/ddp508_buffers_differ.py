"""Buffers, such as BatchNorm's running statistics, that are not the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.replicas import differing, value_finding
from ddpdoctor.model import Finding, Rule, Severity, Writer

RULE = Rule(
    code="DDP508",
    name="buffers-differ",
    summary="replicas hold different buffers",
    severity=Severity.FAIL,
    shown_by="only buffers differ, such as BatchNorm's running mean: `ddpdoctor verify-sync`",
    remedy="keep `broadcast_buffers=True` (the default; `forward_sync_buffers` from torch 2.13), or use SyncBatchNorm, and "
    "write other buffers on all ranks alike; save and evaluate from rank 0",
    about_step=True,
    writer=Writer.ANY_TIME,
)

OWN = (
    "updated by each rank on its own: DistributedDataParallel does not broadcast {them} (`broadcast_buffers=False`, "
    "`forward_sync_buffers=False` or a list of what it ignores)"
)
NOTHING_WRONG = "save and evaluate from rank 0"


def check(replicas: Replicas, chains: ValueChains | None = None) -> Iterator[Finding]:
    """Buffers that differ: a fault inside a forward, information outside one or where DDP leaves them to each rank."""
    differences = differing(replicas, "buffer")
    if differences:
        severity = Severity.FAIL if replicas.in_forward and not replicas.own_buffers else Severity.INFO
        reason = _own(len(differences)) if replicas.own_buffers else ""
        remedy = NOTHING_WRONG if severity is Severity.INFO else None
        found = value_finding(RULE, replicas, differences, "buffers", severity, reason=reason, remedy=remedy)
        names = [difference.name for difference in differences]
        known = severity is Severity.INFO or replicas.written.get("buffer")
        written = () if known else value_chains.only_write(chains, "buffers", names, found.ranks)
        yield replace(found, where=(*written, *found.where))


def _own(buffers: int) -> str:
    """`2 buffers are updated by each rank on its own: ...`."""
    which, them = ("1 buffer is", "it") if buffers == 1 else (f"{buffers} buffers are", "them")
    return f"{which} {OWN.format(them=them)}"
