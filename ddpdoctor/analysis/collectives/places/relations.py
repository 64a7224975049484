"""Where one rank's place in the program stands, seen from another rank's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ddpdoctor.analysis.collectives.places.rank_tests import (
    exempted_rank,
    tells_ranks_apart,
)
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition, Jump, Loop


class Relation(Enum):
    """Where one stack stands, seen from another."""

    SAME = "at the same place"
    PAST = "past the loop or the call that the other is in"
    WITHIN = "in a loop or a call that the other is past"
    BEFORE = "before the loop that the other is in"
    AHEAD = "in a loop that the other has not come to"
    CONDITIONAL = "under a condition that the other is not under"
    UNCONDITIONAL = "not under the condition that the other is under"
    BRANCHES = "in another branch of one condition"
    ELSEWHERE = "at another place, for a reason that does not show"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one stack relates to another, and what the source shows of it."""

    relation: Relation
    """Where the one stands."""
    condition: Condition | None = None
    """The condition that the relation is about."""
    loop: Loop | None = None
    """The loop that the relation is about."""
    frame: Frame | None = None
    """The frame in that loop, or under that condition."""
    again: bool = False
    """Whether an outer loop leads from behind that loop to before it: then the line in the loop may be of its next turn."""
    jump: Jump | None = None
    """The `continue` by which one side passes over the other's call, where that is the condition."""

    @property
    def decides(self) -> bool:
        """Whether the call is under a test of the rank: then it is clear, of two ranks too, which one called too much."""
        return (
            self.relation is Relation.CONDITIONAL and self.condition is not None and tells_ranks_apart(self.condition)
        )

    @property
    def is_exempted(self) -> bool:
        """Whether the other's call is under `rank != N`, or behind a `continue` of one rank.

        Then it is clear, of two ranks too, which one left it out.
        """
        return (
            self.relation is Relation.UNCONDITIONAL
            and self.condition is not None
            and exempted_rank(self.condition) is not None
        )
