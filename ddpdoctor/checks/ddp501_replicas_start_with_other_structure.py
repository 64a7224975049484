"""Replicas whose models are not the same kind of thing: DDP compares counts and shapes at most, and then copies bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import at_step, places, structure_sentence, vote_on
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP501",
    name="replicas-start-with-other-structure",
    summary="models differ between ranks in names, order, dtype, shape, frozen set or buffers",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor verify-sync` before the first step names the parameter that only some ranks have",
    remedy="build the model with the same code on every rank (no iteration over sets, no branch on the rank); freeze "
    "and cast parameters before wrapping",
    explains=("DDP502", "DDP503", "DDP504", "DDP505", "DDP507", "DDP508", "DDP509", "DDP525", "DDP526", "DDP527"),
)


def check(replicas: Replicas) -> Iterator[Finding]:
    """The first parameter or buffer that is not the same kind of thing on all ranks."""
    differences = [difference for difference in replicas.structure if difference.role != "optimizer state"]
    if not differences:
        return
    first, *others = differences
    vote = vote_on(first.sides)
    more = f"; {len(differences)} tensors differ in structure" if others else ""
    doubt = tie_note(tied=vote.tied)
    yield RULE.finding(
        f"{at_step(replicas)}{structure_sentence(first)}{more}{doubt}",
        ranks=vote.minority,
        where=places(replicas, vote.minority),
        tensor=first.name,
        aspect=first.aspect,
        tensors=[difference.name for difference in differences],
    )
