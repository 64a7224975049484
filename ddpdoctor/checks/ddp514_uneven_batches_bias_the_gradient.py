"""Batches of different sizes: DDP averages the ranks' means, so a sample in a small batch counts more."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, when
from ddpdoctor.analysis.replica_words import sides_sentence
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP514",
    name="uneven-batches-bias-the-gradient",
    summary="ranks train on batches of different sizes at the same step",
    severity=Severity.FAIL,
    remedy="use drop_last=True or a DistributedSampler that pads, or weight the loss: loss.sum() * world_size / "
    "samples of all ranks",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which the ranks' batches differ in size."""
    for found in of_phase(divergences, "uneven"):
        doubt = "; it cannot be told which side is right" if found.tied else ""
        at_ends = found.numbers["steps"] == found.numbers["last"]
        which = ", all with the last batch of an epoch" if at_ends else ""
        message = (
            f"{when(found, divergences)}, the batch has {sides_sentence(found.sides)} samples; sizes differ in "
            f"{found.numbers['steps']:g} of {found.numbers['audited']:g} steps seen{which}{doubt}"
        )
        yield finding(RULE, found, message, note="steps with it", severity=Severity.INFO if at_ends else None)
