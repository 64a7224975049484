"""How a divergence is reported: since which step, which tensors, where in the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.base import Diverged
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

SHOWN = 3
WRITE = "write"
"""What `measured["shown"]` of a finding says whose lines are those that wrote what differs."""
LOAD = "load"
"""What it says of one whose lines are those that loaded it."""


def some_of(tensors: Sequence[str], total: int, noun: str) -> str:
    """`4 of 18 parameters (a.weight, b.weight, ...)`."""
    shown = ", ".join(tensors[:SHOWN]) + (", ..." if len(tensors) > SHOWN else "")
    return f"{len(tensors)} of {total} {noun} ({shown})"


def when(found: Diverged, divergences: Divergences) -> str:
    """`at step 3 of 40`."""
    return f"at step {found.step} of {divergences.steps}"


def where(lines: Mapping[int, Frame], culprits: Sequence[int], note: str = "") -> tuple[Where, ...]:
    """The user's lines, culprits first."""
    ordered = sorted(lines, key=lambda rank: (rank not in culprits, rank))
    return tuple(Where.at(lines[rank], rank=rank, note=note) for rank in ordered)


def finding(
    rule: Rule,
    found: Diverged,
    message: str,
    *,
    tensors: Sequence[str] = (),
    cause: str = "",
    note: str = "",
    remedy: str | None = None,
    severity: Severity | None = None,
    numbers: Mapping[str, float | str | list[int]] | None = None,
) -> Finding:
    """The finding of `rule` about `found`, with its ranks and lines; `numbers` are those of the message, for machines."""
    plain = rule.finding(
        message, ranks=found.ranks, where=where(found.lines, found.ranks, note), remedy=remedy, severity=severity,
        step=found.step, tensors=list(tensors), cause=cause,
    )  # fmt: skip
    return replace(plain, measured={**plain.measured, **(numbers or {})})


def suspects(ranks: Sequence[int], devices: Mapping[int, str], tracks: PerRank[Track] | None) -> str:
    """`rank 2 (NVIDIA H100 GPU-4f1c... on node7)`: the ranks, their GPUs where known, their hosts where there are several."""
    hosts = {entry.rank: entry.host for entry in tracks or ()}
    if len(set(hosts.values())) < 2:
        hosts = {}
    named = [
        " ".join([*([devices[rank]] if devices.get(rank) else ()), *([f"on {hosts[rank]}"] if rank in hosts else ())])
        for rank in ranks
    ]
    shown = ", ".join(dict.fromkeys(filter(None, named)))
    return f"{group_ranks(ranks)} ({shown})" if shown else group_ranks(ranks)


def everyone(ranks: Sequence[int], world_size: int) -> str:
    """`all 4 ranks`, or `ranks 0,2` where they are the replicas of one part of a model."""
    return f"all {world_size} ranks" if len(ranks) == world_size else group_ranks(ranks)
