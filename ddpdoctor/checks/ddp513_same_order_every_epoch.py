"""The same shuffled order in every epoch: the sampler was never told which epoch it is."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP513",
    name="same-order-every-epoch",
    summary="samples come in the same shuffled order in two epochs",
    severity=Severity.FAIL,
    remedy="call sampler.set_epoch(epoch) at the start of each epoch",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first epoch that repeats the order of the one before."""
    for found in of_phase(divergences, "same order"):
        message = f"epoch {found.numbers['epoch']:g} repeats the shuffled order of epoch {found.numbers['before']:g} on all ranks"
        yield finding(RULE, found, message, note=f"iterates over {found.why}" if found.why else "")
