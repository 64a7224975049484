"""Parameters that are trained but belong to no wrapped module: nobody averages their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, some_of
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP518",
    name="parameter-outside-ddp",
    summary="a parameter is trained whose module is not wrapped",
    severity=Severity.FAIL,
    remedy="wrap one module that holds all trained parameters, or wrap each of them",
    explains=("DDP503", "DDP507", "DDP509"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """Parameters of the optimizer outside every wrapped module, with different gradients."""
    for found in of_phase(divergences, "outside"):
        message = (
            f"from step {found.step} of {divergences.steps} on, {some_of(found, 'parameters')} of the optimizer are in no "
            "wrapped module, and their gradients differ between ranks"
        )
        yield finding(RULE, found, message, note="steps with them")
