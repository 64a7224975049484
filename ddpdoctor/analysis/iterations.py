"""The first iteration that did not begin after the same number of collectives on every rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfStep:
    """`seq` is how many collectives each rank had made when `iteration` began; all had made `equal` when the last one did."""

    iteration: int
    seq: Mapping[int, int]
    equal: int

    @property
    def sides(self) -> Vote:
        """The ranks by how many collectives they had made."""
        return vote(self.seq)


@dataclass(frozen=True, slots=True)
class Iterations:
    """The first iteration out of step, or None where the ranks kept in step."""

    out_of_step: OutOfStep | None


def derive(calls: PerRank[CollectiveCalls]) -> Iterations:
    """Where the ranks' iterations parted, by the marks that their agents made."""
    began: dict[int, dict[int, int]] = {}
    for entry in calls:
        for mark in entry.value.steps:
            began.setdefault(mark.iteration, {})[entry.rank] = mark.seq
    equal = 0
    for iteration, seq in sorted(began.items()):
        if len(set(seq.values())) > 1:
            return Iterations(OutOfStep(iteration=iteration, seq=seq, equal=equal))
        equal = max(seq.values())
    return Iterations(None)
