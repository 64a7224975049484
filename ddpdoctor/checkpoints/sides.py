"""The ranks that agree with each other."""

from __future__ import annotations

from collections.abc import Mapping

from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.replicas import Side


def sides_of(said: Mapping[int, str]) -> tuple[Side, ...]:
    """The sides of a vote, the largest first, each with what it says."""
    return tuple(Side(ranks=side, says=said[side[0]]) for side in vote(said).sides)
