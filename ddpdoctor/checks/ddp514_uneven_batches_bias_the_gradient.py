"""Batches of different sizes: DDP averages the ranks' means, so a sample in a small batch counts more."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import UnevenBatches
from ddpdoctor.messages.divergence import finding, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP514",
    name="uneven-batches-bias-the-gradient",
    summary="ranks train on batches of different sizes at the same step",
    severity=Severity.FAIL,
    shown_by="batch sizes differ between ranks at one step: `ddpdoctor verify-sync`",
    remedy="use drop_last=True or a DistributedSampler that pads, or weight the loss: loss.sum() * world_size / "
    "samples of all ranks",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which the ranks' batches differ in size."""
    for found in divergences.of(UnevenBatches):
        doubt = tie_note(tied=found.tied)
        at_ends = found.steps == found.last
        which = ", always in the last batch of an epoch" if at_ends else ""
        message = (
            f"{when(found, divergences)}, the batch size is {sides_sentence(found.sides)}; batch sizes differ in "
            f"{found.steps} of {found.audited} compared steps{which}{doubt}"
        )
        yield finding(
            RULE,
            found,
            message,
            note="the forward",
            severity=Severity.INFO if at_ends else None,
            numbers={"steps": found.steps, "last": found.last, "audited": found.audited},
        )
