"""A rank that skipped a step which the others made."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.analysis.replica_words import sides_sentence
from ddpdoctor.evidence.divergence import Divergence, Divergences
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

REMEDIES = {
    "found_inf": "all_reduce found_inf (MAX) before scaler.step, or scale and step reduced gradients only: no_sync and "
    "edits between the reduction and the step make them differ",
}


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which the ranks are out of line."""
    for found in of_phase(divergences, "step skipped"):
        skipped = f"{group_ranks(found.ranks)} skipped step {found.step} of {divergences.steps}"
        doubt = "; it cannot be told which side is right" if found.tied else ""
        yield finding(
            RULE, found, f"{skipped}: {_how(found)}{doubt}", note="steps again", remedy=REMEDIES.get(found.why)
        )


def _how(found: Divergence) -> str:
    if found.why == "found_inf":
        return (
            f"its GradScaler (scale {found.numbers['scale']:g}) found gradients that are not finite, its peers' did not"
        )
    if found.why == "steps":
        return f"by the same forward it has made {sides_sentence(found.sides)} steps"
    return f"by the same forward it stands at another batch (epoch, batches drawn): {sides_sentence(found.sides)}"
