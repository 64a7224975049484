"""Weights that code wrote on some ranks only, between two steps: a reload, an average of weights, a clamp."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, some_of
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP509",
    name="weights-written-on-one-rank",
    summary="weights were written on some ranks only, outside the optimizer",
    severity=Severity.FAIL,
    remedy="do it on every rank from the same numbers, or on one rank and broadcast the result",
    explains=("DDP503", "DDP507", "DDP508"),
)

NOTES = {"loaded": "loads weights"}


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step before which weights changed on some ranks."""
    for found in of_phase(divergences, "weights written"):
        message = (
            f"before step {found.step} of {divergences.steps}, {group_ranks(found.ranks)} wrote {some_of(found, 'parameters')} "
            "outside the optimizer"
        )
        note = "writes them" if found.wrote else NOTES.get(found.why, "the first step after it")
        yield finding(RULE, found, message, note=note)
