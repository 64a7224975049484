"""A rank that skipped a step which the others made."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.analysis.replica_words import sides_sentence
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP510",
    name="step-skipped-on-one-rank",
    summary="a rank skipped a step that its peers made",
    severity=Severity.FAIL,
    remedy="decide on all ranks together: all_reduce the reason to skip (a NaN, a caught error, an empty batch) "
    "and skip everywhere or nowhere",
    explains=("DDP503", "DDP507", "DDP509", "DDP504", "DDP505", "DDP508", "DDP506"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which the ranks are out of line."""
    for found in of_phase(divergences, "step skipped"):
        doubt = "; it cannot be told which side is right" if found.tied else ""
        said = (
            f"has made {sides_sentence(found.sides)} steps"
            if found.why == "steps"
            else f"stands at another batch (epoch, batches drawn): {sides_sentence(found.sides)}"
        )
        skipped = f"{group_ranks(found.ranks)} skipped step {found.step} of {divergences.steps}"
        message = f"{skipped}: by the same forward it {said}{doubt}"
        yield finding(RULE, found, message, note="steps again")
