"""Parameters that are trained but belong to no wrapped module: nobody averages their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import ParameterOutside
from ddpdoctor.messages.divergence import finding, some_of
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP518",
    name="parameter-outside-ddp",
    summary="a trained parameter belongs to no wrapped module",
    severity=Severity.FAIL,
    shown_by="one parameter diverges and all others agree: `ddpdoctor verify-sync`",
    remedy="wrap one module that holds all trained parameters, or wrap each of them",
    explains=("DDP503", "DDP507", "DDP509"),
    about_step=True,
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """Parameters of the optimizer outside every wrapped module, with different gradients."""
    for found in divergences.of(ParameterOutside):
        outside = some_of(found.tensors, found.total, "parameters")
        message = (
            f"from step {found.step} of {divergences.steps} on, {outside} of the optimizer are in no "
            "wrapped module, and their gradients differ between ranks"
        )
        note = "makes the parameter or its optimizer" if found.made else "the optimizer step"
        yield finding(RULE, found, message, tensors=found.tensors, note=note)
