"""DDP747: each rank lowers its learning rate by its own loss."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.evaluation import evaluation_loaders, of_one_part
from ddpdoctor.analysis.training_code.local_values import own_value
from ddpdoctor.analysis.training_code.several_ranks import runs_several
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP747",
    name="scheduler-from-local-metric",
    summary="a ReduceLROnPlateau gets a loss of this rank alone: learning rates part between ranks",
    severity=Severity.FAIL,
    remedy="all_reduce the metric before the scheduler gets it",
    leads_to=("DDP506",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each step of such a scheduler with a local value."""
    loaders = evaluation_loaders(graph)
    for function, call in graph.calls("step"):
        if call.receiver is None or not call.arguments or not _lowers_by_a_metric(function, call.receiver):
            continue
        value = call.arguments[0].value
        origin = own_value(graph, function, value) or _of_lightning(graph, function, value)
        if origin is None and not of_one_part(graph, value, loaders):
            continue
        yield code_finding(
            RULE,
            f"`{call.receiver.text}` lowers the learning rate by `{value.text}`, which is another on each rank: "
            "learning rates part",
            call.place,
            because=origin,
            remedy=f"all_reduce `{value.text}` over all ranks before `{call.receiver.text}.step`",
        )


def _of_lightning(graph: CallGraph, function: Function, value: Value) -> Origin | None:
    """What a LightningModule's forward gave in a hook: Lightning gives each rank its part of every data set."""
    if function.hook != "lightning" or value.may(Kind.SHARED) or not runs_several(graph, function, "lightning"):
        return None
    return next((origin for origin in value.origins if origin.kind is Kind.LOCAL and origin.note == "forward"), None)


def _lowers_by_a_metric(function: Function, scheduler: Value) -> bool:
    """Whether a scheduler is ReduceLROnPlateau; the one that a LightningModule steps by hand with a value can be no other."""
    of_lightning = function.hook == "lightning" and scheduler.text.endswith("lr_schedulers()")
    return of_lightning or any(origin.note == "plateau" for origin in scheduler.origins)
