"""DDP744: gradients are clipped on some ranks only."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.branches import answered_elsewhere
from ddpdoctor.analysis.training_code.call_graph import CallGraph, rank_guard
from ddpdoctor.messages.code_findings import code_finding, guarded, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP744",
    name="gradients-changed-on-one-rank",
    summary="gradients are clipped under a test of the rank: the ranks step differently and their weights part",
    severity=Severity.FAIL,
    remedy="clip on every rank: after the backward all ranks hold the same gradients",
    leads_to=("DDP505",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each call that changes gradients on some ranks."""
    for function, call in graph.calls("clip", "unscale"):
        guard = rank_guard(call.guards)
        if guard is None or answered_elsewhere(graph, function, call, guard):
            continue
        yield code_finding(
            RULE,
            f"{short(call)} changes the gradients {guarded(guard)}: the ranks step differently, and their weights part",
            call.place,
            because=guard.by_rank,
            remedy=f"move line {call.place.line} out of `if {guard.test}`",
        )
