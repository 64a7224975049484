"""Reduced gradients that are not the mean of the local ones, on all ranks alike."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP521",
    name="reduction-scale-wrong",
    summary="reduced gradients are a multiple of the mean of the local ones",
    severity=Severity.FAIL,
    remedy="divide by the number of ranks exactly once: a communication hook or your own all_reduce must give the mean",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """A factor of the number of ranks, or its inverse, in every step seen."""
    for found in of_phase(divergences, "scale"):
        message = (
            f"from step {found.step} of {divergences.steps} on, the reduced gradient is {found.numbers['factor']:g} times the "
            f"mean of the local ones on all {divergences.world_size} ranks"
        )
        yield finding(RULE, found, message, note="registers the hook" if found.why == "hook" else "the backward")
