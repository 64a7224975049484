"""DDP746: the loss is divided by the world size, which DDP does already."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DATA, CallGraph
from ddpdoctor.evidence.training_code import Kind
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP746",
    name="loss-divided-by-world-size",
    summary="the loss is divided by the world size before the backward: DDP averages gradients already, so they are too small",
    severity=Severity.WARN,
    remedy="leave the division out: DDP divides the sum of the gradients by the world size",
    leads_to=("DDP521",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each backward through the wrapper of a loss that holds this division."""
    for function, backward in graph.calls("backward"):
        value = backward.receiver
        if value is None or graph.any_program(function, DOES_THE_DATA):
            continue
        divided = next((one for one in value.origins if one.kind is Kind.WORLD_SIZE and one.note == "divides"), None)
        multiplied = any(one.kind is Kind.WORLD_SIZE and one.note != "divides" for one in value.origins)
        if divided is None or multiplied or value.may(Kind.SHARED):
            continue
        wrapped = any(
            forward.receiver is not None and forward.receiver.may(Kind.WRAPPED) for _, forward in graph.forwards(value)
        )
        if wrapped:
            yield code_finding(
                RULE,
                f"`{value.text}` is divided by the world size before its backward, and DDP divides the gradients by it again",
                backward.place,
                because=divided,
            )
