"""DDP746: the loss is divided by the world size, which DDP does already."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DATA, CallGraph
from ddpdoctor.evidence.training_code import Kind
from ddpdoctor.messages.code_findings import chain_places, code_finding, short
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
    """One finding for each backward of a loss that holds this division, and each reduction of gradients by hand."""
    yield from _reduced_again(graph)
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
                *chain_places(divided, backward.place),
                because=divided,
            )


def _reduced_again(graph: CallGraph) -> Iterator[Finding]:
    """Gradients that are reached through the wrapper, and summed over the ranks once more; info where they are averaged."""
    for function, call in graph.calls("collective"):
        tensor = call.argument("tensor", 0)
        gradient = tensor.only(Kind.OBJECT) if tensor is not None and short(call) == "all_reduce" else None
        made = graph.made.get(gradient.made) if gradient is not None and gradient.note == "gradients" else None
        if gradient is None or made is None or made[1].does != "wrap-ddp" or call.argument("group") is not None:
            continue
        if graph.any_program(function, ("no_sync", "register_comm_hook", "register_ddp_comm_hook")):
            continue
        if any("grad" not in guard.test or guard.by_rank or guard.by_local for guard in call.guards):
            continue
        if any(change.key.endswith("grad_sync") for each in graph.functions.values() for change in each.changes):
            continue
        divided = (
            any(".grad." in f"{change.key}." for change in function.changes)
            or any(other.does == "change-gradient" for other in function.calls)
            or len(call.arguments) > 1
        )
        yield code_finding(
            RULE,
            "DDP has averaged these gradients in the backward, and they are averaged once more: that costs a step's communication"
            if divided
            else "DDP has averaged these gradients in the backward, and they are summed over the ranks again: the step is too "
            "large by the number of ranks",
            call.place,
            made[1].place,
            severity=Severity.INFO if divided else None,
            remedy=f"leave {short(call)} out: DDP reduces the gradients of the model that it wraps",
        )
