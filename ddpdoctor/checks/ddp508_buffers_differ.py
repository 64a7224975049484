"""Buffers, such as BatchNorm's running statistics, that are not the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.messages.replicas import differing, value_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP508",
    name="buffers-differ",
    summary="replicas hold different buffers",
    severity=Severity.FAIL,
    shown_by="only buffers differ, such as BatchNorm's running mean: `ddpdoctor verify-sync`",
    remedy="keep `broadcast_buffers=True` (the default), or use SyncBatchNorm, and write other buffers on all ranks alike; save "
    "and evaluate from rank 0",
    about_step=True,
)

OWN = "buffers are updated by each rank for itself, as its model is wrapped with `broadcast_buffers=False`"


def check(replicas: Replicas) -> Iterator[Finding]:
    """Buffers that differ: a fault inside a forward, information outside one or where DDP leaves them to each rank."""
    differences = differing(replicas, "buffer")
    if differences:
        severity = Severity.FAIL if replicas.in_forward and not replicas.own_buffers else Severity.INFO
        reason = f"{len(differences)} {OWN}" if replicas.own_buffers else ""
        yield value_finding(RULE, replicas, differences, "buffers", severity, reason=reason)
