"""Momentum and other state that is not the same on all ranks: equal gradients then give unequal updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.evidence.replicas import Replicas, ValueDifference
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import (
    at_step,
    differing,
    element_sentence,
    places,
    sides_sentence,
    value_finding,
    vote_on,
)
from ddpdoctor.model import Finding, Rule, Severity, Writer

RULE = Rule(
    code="DDP507",
    name="optimizer-state-differs",
    summary="replicas hold different optimizer state",
    severity=Severity.FAIL,
    shown_by="weights agree and the optimizer's state does not: `ddpdoctor verify-sync`",
    remedy="load the optimizer's state dict on every rank, or save and load it through one function that all ranks call",
    explains=("DDP503",),
    about_step=True,
    writer=Writer.BETWEEN_STEPS,
)

AFTER_JOIN = (
    "give every rank the same number of batches (DistributedSampler pads); or put a ZeroRedundancyOptimizer into the Join too, "
    "`Join([model, optimizer])`; or broadcast the optimizer's state from the rank that had the most batches after each Join"
)


def check(replicas: Replicas) -> Iterator[Finding]:
    """Optimizer state that some ranks lack, or whose bytes differ."""
    missing = [difference for difference in replicas.structure if difference.role == "optimizer state"]
    if missing:
        first = missing[0]
        more = f"; {len(missing)} state tensors differ in structure" if len(missing) > 1 else ""
        more += tie_note(tied=vote_on(first.sides).tied)
        yield RULE.finding(
            f"{at_step(replicas)}{first.name} is {sides_sentence(first.sides)}{more}",
            ranks=vote_on(first.sides).minority,
            where=places(replicas, vote_on(first.sides).minority, "optimizer state"),
            tensor=first.name,
            step=replicas.step,
            aspect=first.aspect,
            tensors=[difference.name for difference in missing],
        )
        return
    differences = differing(replicas, "optimizer state")
    if differences and replicas.shadowed:
        yield _after_join(replicas, differences)
    elif differences:
        yield value_finding(RULE, replicas, differences, "state tensors")


def _after_join(replicas: Replicas, differences: Sequence[ValueDifference]) -> Finding:
    """Ranks that had no data left inside `Join` made none of the updates that their peers went on with."""
    late = tuple(sorted(replicas.shadowed))
    missed = " and ".join(
        f"rank {rank} ran out of data inside Join and missed {_updates(replicas.shadowed[rank])}" for rank in late
    )
    others = f"; {len(differences)} state tensors differ" if len(differences) > 1 else ""
    return RULE.finding(
        f"{at_step(replicas)}{element_sentence(differences[0])}{others}; {missed}; Join synchronises weights, not "
        "optimizer state",
        ranks=late,
        where=places(replicas, late),
        remedy=AFTER_JOIN,
        step=replicas.step,
        tensor=differences[0].name,
        missed={str(rank): replicas.shadowed[rank] for rank in late},
        tensors=[difference.name for difference in differences],
    )


def _updates(count: int) -> str:
    return f"{count} update{'' if count == 1 else 's'}"
