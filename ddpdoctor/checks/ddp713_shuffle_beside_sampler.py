"""DDP713: a DataLoader gets shuffle=True and a sampler, which raises."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind
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
    for _, loader in graph.calls("loader"):
        shuffle = loader.argument("shuffle", 2)
        sampler = loader.argument("sampler", 3)
        if shuffle is None or sampler is None or shuffle.constant != "True" or not loader.name.endswith("DataLoader"):
            continue
        if sampler.only(Kind.SAMPLER) is None or any(sampler.text in guard.names for guard in loader.guards):
            continue
        if any(one.kind is Kind.CONSTANT and one.text != "None" for one in sampler.origins):  # None: of one process
            continue
        yield code_finding(
            RULE,
            f"DataLoader raises ValueError: `shuffle=True` and `sampler={sampler.text}` exclude each other",
            loader.place,
            remedy=f"drop `shuffle=True`: `{sampler.text}` shuffles by itself",
            fix=fix(Edit.REMOVE_ARGUMENT, loader.place, old="shuffle"),
        )
