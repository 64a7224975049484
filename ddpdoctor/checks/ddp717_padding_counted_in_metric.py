"""DDP717: a metric over a padded evaluation set counts a few samples twice."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import is_collective
from ddpdoctor.analysis.training_code.evaluation import evaluation_loaders
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP717",
    name="padding-counted-in-metric",
    summary="the sampler of an evaluation set pads it to a multiple of the ranks: the metric counts a few samples twice",
    severity=Severity.INFO,
    remedy="count the padding out: keep the first `len(dataset)` of what is gathered, or give the sampler `drop_last=True`",
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each padded sampler of a loader that is only evaluated, and whose results the ranks sum or gather."""
    for made, loops in evaluation_loaders(graph).items():
        owner, loader = graph.made[made]
        sampler = _sampler(graph, loader)
        if sampler is None or graph.any_program(owner, DOES_THE_DATA):
            continue
        for function_id, _, last in loops:
            joined = next(
                (call for call in graph.functions[function_id].calls if call.order > last and _joins(graph, call)), None
            )
            if joined is not None:
                yield code_finding(
                    RULE,
                    f"the sampler repeats samples until each rank has as many, and {short(joined)} in line {joined.place.line} "
                    "counts them twice",
                    sampler.place,
                    joined.place,
                )
                break


def _joins(graph: CallGraph, call: Call) -> bool:
    if call.does == "compute-metric":
        return call.receiver is not None and any(origin.note == "metric" for origin in call.receiver.origins)
    reached = leads_to_collective(graph, call)
    return reached is not None and is_collective(reached.call) and short(reached.call) != "barrier"


def _sampler(graph: CallGraph, loader: Call) -> Call | None:
    """The sampler of a loader, where it pads."""
    given = loader.argument("sampler", 3)
    origin = given.only(Kind.SAMPLER) if given is not None else None
    made = graph.made.get(origin.made) if origin is not None else None
    if made is None or not made[1].name.endswith("DistributedSampler"):
        return None
    dropped = made[1].argument("drop_last", 5)
    return made[1] if dropped is None or dropped.constant == "False" else None
