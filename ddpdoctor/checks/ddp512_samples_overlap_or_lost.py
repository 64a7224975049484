"""The ranks' parts of the data overlap, or leave samples out."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP512",
    name="samples-overlap-or-lost",
    summary="the ranks' parts of the data set overlap or do not cover it",
    severity=Severity.FAIL,
    remedy="pass the same seed, world size and data set order to DistributedSampler on all ranks, and each its "
    "own rank",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """An epoch in which more samples repeat, or are missing, than padding and drop_last explain."""
    for found in of_phase(divergences, "overlap"):
        numbers = found.numbers
        odd = f"; without {group_ranks(found.ranks)} the parts would not overlap" if found.why else ""
        message = (
            f"in epoch {numbers['epoch']:g}, {numbers['drawn']:g} draws of {numbers['length']:g} samples hit "
            f"{numbers['unique']:g}: {numbers['repeats']:g} drawn again, {numbers['missing']:g} never{odd}"
        )
        yield finding(RULE, found, message, note="iterates over them")
