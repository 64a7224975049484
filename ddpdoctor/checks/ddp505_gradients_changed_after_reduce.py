"""Gradients that were averaged and then changed on some ranks only: clipping, noise or masks that depend on the rank."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, some_of, when
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP505",
    name="gradients-changed-after-reduce",
    summary="averaged gradients were changed on some ranks before the step",
    severity=Severity.FAIL,
    remedy="do the same to the gradients on every rank: clip, mask and add noise from the reduced gradient and a "
    "shared seed",
    explains=("DDP503", "DDP507", "DDP509"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which some ranks' gradients are not the mean of all."""
    for found in of_phase(divergences, "changed after"):
        doubt = "; it cannot be told which side is right" if found.tied else ""
        message = (
            f"{when(found, divergences)}, {group_ranks(found.ranks)} changed {some_of(found, 'gradients')} between the "
            f"reduction and the step{doubt}"
        )
        yield finding(RULE, found, message, note="changes them" if found.wrote else "steps with them")
