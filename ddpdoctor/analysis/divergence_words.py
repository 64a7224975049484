"""How a divergence is said: since which step, which tensors, where in the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.evidence.divergence import Divergence, Divergences, Phase
from ddpdoctor.evidence.track import Line
from ddpdoctor.model import Finding, Rule, Severity, Where

SHOWN = 3


def of_phase(divergences: Divergences, phase: Phase) -> tuple[Divergence, ...]:
    """The divergences of one kind, in the order found."""
    return tuple(one for one in divergences.found if one.phase == phase)


def some_of(found: Divergence, noun: str) -> str:
    """`4 of 18 parameters (a.weight, b.weight, ...)`."""
    shown = ", ".join(found.tensors[:SHOWN]) + (", ..." if len(found.tensors) > SHOWN else "")
    return f"{len(found.tensors)} of {found.total} {noun} ({shown})"


def when(found: Divergence, divergences: Divergences) -> str:
    """`at step 3 of 40`."""
    return f"at step {found.step} of {divergences.steps}"


def where(lines: Mapping[int, Line], culprits: Sequence[int], note: str = "") -> tuple[Where, ...]:
    """The user's lines, culprits first."""
    ordered = sorted(lines, key=lambda rank: (rank not in culprits, rank))
    return tuple(_where(rank, lines[rank], note) for rank in ordered)


def finding(
    rule: Rule,
    found: Divergence,
    message: str,
    *,
    note: str = "",
    remedy: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """The finding of `rule` about `found`, with its ranks, lines and numbers."""
    plain = rule.finding(
        message, ranks=found.ranks, where=where(found.lines, found.ranks, note), remedy=remedy, severity=severity,
        step=found.step,
        tensors=list(found.tensors), cause=found.why,
    )  # fmt: skip
    return replace(plain, measured={**plain.measured, **found.numbers})


def _where(rank: int, line: Line, note: str) -> Where:
    return Where.at(line, rank=rank, note=note)
