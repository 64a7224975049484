"""How a difference between replicas is said: which element, what it is on which ranks, who is in the minority."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.analysis.majority import Vote, vote_of
from ddpdoctor.evidence.replicas import SAMPLED, Replicas, Role, Side, StructureDifference, ValueDifference
from ddpdoctor.messages.divergence import where
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

OTHER_PARTS = 3  # of a tensor that a sentence tells apart, after the first
ASPECTS = {
    "presence": "is",
    "dtype": "has dtype",
    "shape": "has shape",
    "stride": "has strides",
    "requires_grad": "has requires_grad",
    "ties": "is",
}


def differing(replicas: Replicas, role: Role) -> tuple[ValueDifference, ...]:
    """The tensors of `role` whose bytes differ, in the model's order."""
    return tuple(difference for difference in replicas.values if difference.role == role)


def value_sentence(differences: Sequence[ValueDifference], total: str) -> str:
    """The first of them to the element, and how many there are: `0.weight[5, 2] is 1 on ranks 0-2 and 2 on rank 3`."""
    first = differences[0]
    others = f"; {len(differences)} {total} differ" if len(differences) > 1 else ""
    if first.changed_on:
        return f"{element_sentence(first)}{others}; {first.name} has changed on {group_ranks(first.changed_on)} only"
    doubt = tie_note(tied=vote_on(first.sides).tied)
    return f"{element_sentence(first)}{others}{doubt}"


def element_sentence(difference: ValueDifference) -> str:
    """Where and how one tensor differs: its worst element where one was located, else the ranks by content."""
    if difference.element is None:
        verb = "is" if difference.sides[0].says else "differs between"
        further = [f"between {sides_sentence(sides)}" for sides in difference.other_parts[:OTHER_PARTS]]
        more = ["in further parts"] if len(difference.other_parts) > OTHER_PARTS else []
        return ", ".join([f"{difference.name} {verb} {sides_sentence(difference.sides)}", *further, *more])
    index = f"[{', '.join(map(str, difference.element.index))}]" if difference.element.index else ""
    sentence = f"{difference.name}{index} is {sides_sentence(difference.sides)}"
    if difference.kind != "value":
        seen = ", in the sampled elements" if difference.extent == SAMPLED else ""
        return f"{sentence}: only the {difference.kind} differs{seen}"
    gap = difference.element.difference
    return sentence if gap is None else f"{sentence}, a difference of {gap:.3g}"


def structure_sentence(difference: StructureDifference) -> str:
    """`parameter a.weight has dtype float32 on ranks 0-2 and float64 on rank 3`."""
    if difference.aspect == "order":
        return f"{difference.role}s are registered in a different order: {sides_sentence(difference.sides)}"
    return f"{difference.role} {difference.name} {ASPECTS[difference.aspect]} {sides_sentence(difference.sides)}"


def sides_sentence(sides: Sequence[Side]) -> str:
    """`1 on ranks 0-2 and 2 on rank 3`."""
    sides_text = [
        f"{side.says} on {group_ranks(side.ranks)}" if side.says else group_ranks(side.ranks) for side in sides
    ]
    return listed(sides_text)


def listed(things: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(things[:-1]), things[-1]] if len(things) > 1 else things)


def tolerance_sentence(tolerance: float, within: int, largest: float) -> str:
    """`tensors within the tolerance of 1e-06: 3 (largest difference 2e-07)`."""
    at_most = f" (largest difference {largest:.3g})" if within else ""
    return f"tensors within the tolerance of {tolerance:g}: {within}{at_most}"


def minority_of(difference: ValueDifference) -> tuple[int, ...]:
    """The ranks of the minority: those of each part, where ranks hold parts of the tensor."""
    each = (difference.sides, *difference.other_parts)
    return difference.changed_on or tuple(sorted({rank for sides in each for rank in vote_on(sides).minority}))


def vote_on(sides: Sequence[Side]) -> Vote:
    """The ranks of the minority."""
    return vote_of([side.ranks for side in sides])


def at_step(replicas: Replicas) -> str:
    """`at step 3 of 40: `, or nothing where steps were not counted."""
    if replicas.step is None:
        return ""
    total = f" of {replicas.steps}" if replicas.steps else ""
    averaged = ", right after the weights were averaged" if replicas.averaged else ""
    return f"at step {replicas.step}{total}{averaged}: "


def places(replicas: Replicas, culprits: Sequence[int], role: Role | None = None) -> tuple[Where, ...]:
    """The user's lines at which the replicas were seen to differ, culprits first; those that did it, where they are known."""
    if role is not None and replicas.written.get(role):
        return where(replicas.written[role], culprits, f"changes the {role}")
    if role == "optimizer state" and replicas.loads:
        return where(replicas.loads, culprits, "loads the optimizer state")
    if replicas.on_a_mesh:
        return where(replicas.lines, culprits, "builds the optimizer; the weights differ before its first step")
    note = "the step after which they differ" if replicas.stepped else "wraps the model"
    note = "averages the weights" if replicas.averaged else note
    return where(replicas.lines, culprits, note)


def value_finding(
    rule: Rule,
    replicas: Replicas,
    differences: Sequence[ValueDifference],
    total: str,
    severity: Severity | None = None,
    *,
    reason: str = "",
    remedy: str | None = None,
) -> Finding:
    """The finding of `rule` about the first of `differences`; `total` is what the tensors are called together.

    With a `reason` the ranks are not judged. `remedy` is in place of that of the rule.
    """
    first = differences[0]
    minority = minority_of(first)
    message = f"{element_sentence(first)}; {reason}" if reason else value_sentence(differences, total)
    return rule.finding(
        f"{at_step(replicas)}{message}",
        ranks=minority,
        where=places(replicas, minority, first.role),
        severity=severity,
        remedy=remedy,
        step=replicas.step,
        tensor=first.name,
        index=list(first.element.index) if first.element else None,
        values={group_ranks(side.ranks): side.says for side in first.sides},
        difference=first.element.difference if first.element else None,
        extent=first.extent,
        kind=first.kind,
        tensors=[difference.name for difference in differences],
    )
