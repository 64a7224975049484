"""DDP713: a DataLoader gets shuffle=True and a sampler, which raises."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP713",
    name="shuffle-beside-sampler",
    summary="a DataLoader with shuffle=True and a sampler: its constructor raises ValueError",
    severity=Severity.FAIL,
    remedy="drop `shuffle=True`: a DistributedSampler shuffles by itself",
    leads_to=("DDP401",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such loader."""
    for function, loader in graph.calls("loader"):
        shuffle = loader.argument("shuffle", 2)
        if shuffle is None or not loader.name.endswith("DataLoader"):
            continue
        for name, position in (("sampler", 3), ("batch_sampler", 4)):
            sampler = loader.argument(name, position)
            if sampler is None or not _is_one(loader, sampler) or not _is_on_beside(graph, function, shuffle, sampler):
                continue
            yield code_finding(
                RULE,
                f"DataLoader raises ValueError: `shuffle={shuffle.text}` and `{name}={sampler.text}` exclude each other",
                loader.place,
                remedy=f"drop `shuffle={shuffle.text}`: `{sampler.text}` shuffles by itself",
                fix=fix(Edit.REMOVE_ARGUMENT, loader.place, old="shuffle"),
            )


def _is_one(loader: Call, sampler: Value) -> bool:
    """Whether a loader gets a sampler: in a job of one process it may be None instead."""
    tested = any(sampler.text in guard.names for guard in loader.guards)
    literals = (origin.text for origin in sampler.origins if origin.kind is Kind.CONSTANT)
    return sampler.only(Kind.SAMPLER) is not None and not tested and all(text == "None" for text in literals)


def _is_on_beside(graph: CallGraph, function: Function, shuffle: Value, sampler: Value) -> bool:
    """Whether `shuffle` is on, or is so where there is a sampler, or for one of the parts of the data that all get one."""
    if " == " in shuffle.text and all(origin.kind is Kind.CONSTANT for origin in shuffle.origins):
        made_here = all(graph.made[made][0].id == function.id for made in sampler.made if made in graph.made)
        always = all(origin.kind is Kind.SAMPLER for origin in sampler.origins)
        return made_here and always and any(origin.text == "True" for origin in shuffle.origins)
    return shuffle.constant == "True" or shuffle.text in {f"{sampler.text} is not None", f"bool({sampler.text})"}
