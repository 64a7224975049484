"""Replicas whose models are not the same kind of thing: DDP compares counts and shapes at most, and then copies bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replica_words import UNDECIDED, at_step, minority, places, structure_sentence
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP501",
    name="replicas-start-with-other-structure",
    summary="models differ between ranks in names, order, dtype, shape, frozen set or buffers",
    severity=Severity.FAIL,
    remedy="build the model by the same code on every rank (no set order, no rank branch); freeze and cast "
    "before the wrap",
    explains=("DDP502", "DDP503", "DDP504", "DDP505", "DDP507", "DDP508", "DDP509"),
)


def check(replicas: Replicas) -> Iterator[Finding]:
    """The first parameter or buffer that is not the same kind of thing on all ranks."""
    differences = [difference for difference in replicas.structure if difference.role != "optimizer state"]
    if not differences:
        return
    first, *others = differences
    vote = minority(first.sides)
    more = f"; {len(differences)} tensors differ in kind" if others else ""
    doubt = f"; {UNDECIDED}" if vote.tied else ""
    yield RULE.finding(
        f"{at_step(replicas)}{structure_sentence(first)}{more}{doubt}",
        ranks=vote.odd,
        where=places(replicas, vote.odd),
        tensor=first.name,
        aspect=first.aspect,
        tensors=[difference.name for difference in differences],
    )
