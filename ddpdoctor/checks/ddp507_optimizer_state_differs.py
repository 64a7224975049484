"""Momentum and other state that is not the same on all ranks: equal gradients then give unequal updates."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replica_words import at_step, differing, minority, places, sides_sentence, value_finding
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP507",
    name="optimizer-state-differs",
    summary="replicas hold different optimizer state",
    severity=Severity.FAIL,
    remedy="load the optimizer's state dict on every rank, or save and load it through one function that all "
    "ranks call",
    explains=("DDP503",),
)


def check(replicas: Replicas) -> Iterator[Finding]:
    """Optimizer state that some ranks lack, or whose bytes differ."""
    missing = [difference for difference in replicas.structure if difference.role == "optimizer state"]
    if missing:
        first = missing[0]
        more = f"; {len(missing)} state tensors differ in kind" if len(missing) > 1 else ""
        yield RULE.finding(
            f"{at_step(replicas)}{first.name} is {sides_sentence(first.sides)}{more}",
            ranks=minority(first.sides).odd,
            where=places(replicas, minority(first.sides).odd),
            tensor=first.name,
            step=replicas.step,
            aspect=first.aspect,
            tensors=[difference.name for difference in missing],
        )
        return
    differences = differing(replicas, "optimizer state")
    if differences:
        yield value_finding(RULE, replicas, differences, "state tensors")
