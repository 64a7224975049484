"""DDP735: ranks make different numbers of steps, because each goes over its own files."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.later_calls import reduces_gradients
from ddpdoctor.evidence.training_code import Kind
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP735",
    name="uneven-loop",
    summary="each rank loops over its own part of a list, with a backward inside: the rank with more of it waits for the others",
    severity=Severity.WARN,
    remedy="run the loop inside `with Join([model])`, or cut all parts to the length of the shortest",
    leads_to=("DDP306",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each loop over a part that the rank chose, with a step inside."""
    for function in graph.functions.values():
        for loop in function.loops:
            part = next((one for one in loop.over.origins if one.note in {"part", "length"}), None)
            if (
                part is None
                or loop.over.may(Kind.SHARED)
                or any(context.name.endswith(("Join", ".join")) for context in loop.contexts)
            ):
                continue
            step = next(
                (
                    call
                    for call in function.calls
                    if loop.order in call.loops and reduces_gradients(graph, call) and not call.under("Join", ".join")
                ),
                None,
            )
            if step is not None:
                yield code_finding(
                    RULE,
                    f"`{loop.head}` turns as often as this rank has items, and the backward in line {step.place.line} "
                    "needs all ranks",
                    loop.place,
                    step.place,
                    because=part,
                )
