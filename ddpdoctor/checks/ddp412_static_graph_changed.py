"""A model wrapped with static_graph=True used other parameters than in the first step."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP412",
    name="static-graph-changed",
    summary="a model wrapped with static_graph=True changed its graph",
    severity=Severity.FAIL,
    shown_by="the model is wrapped with static_graph=True, and the message says that the graph changed",
    remedy="leave static_graph out, and use find_unused_parameters=True where the parameters used depend on the data; or use the "
    "same ones in every step",
    explains=("DDP306", "DDP307", "DDP314", "DDP318", "DDP401", "DDP404", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"[Yy]our training graph has changed in this iteration",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The ranks whose graph is not that of the first step any more."""
    found = failures.of("DDP412")
    if found:
        ranks = unique_ranks(found)
        yield RULE.finding(
            f"{who(found)} used other parameters than in the first step, under static_graph=True",
            ranks=ranks,
            where=[where for failure in found for where in failure.where("begins the next step here")],
        )
