"""NaN or infinity that begins on some ranks and reaches all of them through the reduction."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, some_of, when
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP517",
    name="non-finite-on-some-ranks",
    summary="some ranks' own loss or gradients are not finite",
    severity=Severity.FAIL,
    remedy="look at that rank's batch at that step (an empty batch, a bad sample, a division by zero); decide on "
    "all ranks together whether to skip it",
    explains=("DDP514", "DDP503", "DDP504", "DDP505", "DDP507", "DDP508"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step at which some ranks' own numbers are not finite."""
    for found in of_phase(divergences, "local gradient"):
        what = []
        if found.why == "input":
            what.append("the model's input")
        if found.why == "loss":
            what.append("a loss")
        if found.tensors:
            what.append(some_of(found, "local gradients"))
        be = "are" if len(what) > 1 or found.tensors else "is"
        message = (
            f"{when(found, divergences)}, {' and '.join(what)} on {group_ranks(found.ranks)} only {be} not finite, before "
            "anything is reduced"
        )
        yield finding(RULE, found, message, note="here")
