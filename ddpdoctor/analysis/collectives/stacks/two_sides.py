"""Two sides of ranks that wait for each other in different collectives, by their stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.groups.desync import Cause
from ddpdoctor.analysis.collectives.places.framework_requests import RankRequest
from ddpdoctor.analysis.collectives.places.relations import Comparison
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import NEW_GROUP
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Jump, Loop
from ddpdoctor.model import Where, group_ranks, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDesync:
    """Two sides of ranks that wait for each other in different collectives."""

    cause: Cause
    """What one side did, or did not do, that the other did."""
    minority: tuple[RankActivity, ...]
    """The side that is reported."""
    majority: tuple[RankActivity, ...]
    """The other side."""
    tied: bool
    """Whether there is no majority: either side may be at fault."""
    comparison: Comparison
    """The place of the first rank of the minority, seen from the majority."""
    skips: tuple[str, ...] = ()
    """The `continue`s, as `train.py:58`, of the loop that only one side is in."""
    turns: Mapping[int, int] = field(default_factory=dict)
    """By rank, the last turn of that loop; empty where one is not known."""
    passed_over: bool = False
    """Whether the ranks that left the loop made as many turns as the others, and so one call less in one of them."""
    request: RankRequest | None = None
    """The statement under a test of the rank by which one side asked a framework for its call, or made a call of its own."""

    @property
    def culprits(self) -> list[int]:
        """The ranks at fault: the minority, or both sides where it cannot be told."""
        return sorted(activity.rank for activity in ((*self.minority, *self.majority) if self.tied else self.minority))

    @property
    def loops_left(self) -> list[tuple[Frame, Loop]]:
        """The loop that only the majority is in, with a line of it; empty where the minority has left none."""
        loop, frame = self.comparison.loop, self.comparison.frame
        return [(frame, loop)] if self.cause is Cause.LEFT and loop is not None and frame is not None else []

    @property
    def passed(self) -> list[tuple[Frame, Jump]]:
        """The `continue` by which the minority passed over the call of the others, with a frame of its function."""
        jump, frame = self.comparison.jump, self.comparison.frame
        return [(frame, jump)] if self.cause is Cause.MISSING and jump is not None and frame is not None else []

    @property
    def makes_a_group(self) -> bool:
        """Whether one of the two sides waits in new_group."""
        return any(activity.operation == NEW_GROUP for activity in (*self.minority, *self.majority))

    @property
    def is_told_by_the_rank(self) -> bool:
        """Whether a test of the rank tells the sides apart where they stand, or one side has left a loop."""
        return (
            self.cause is Cause.LEFT
            or self.request is not None
            or self.comparison.decides
            or self.comparison.is_exempted
        )

    @property
    def is_told_by_the_source(self) -> bool:
        """Whether the call that one side alone makes was found in the source, and not where ranks wait."""
        return self.request is not None and self.request.request.wants == "collective"

    @property
    def askers(self) -> list[int]:
        """The ranks that made `request`."""
        side = self.majority if self.cause is Cause.MISSING else self.minority
        return sorted(activity.rank for activity in side)

    def sentence(self, before: str = "") -> str:
        """`rank 1 waits in barrier while ranks 0,2-3 wait in backward or forward`; `before` is what the minority did before."""
        minority, majority = (
            group_ranks([activity.rank for activity in side]) for side in (self.minority, self.majority)
        )
        return f"{minority} {before}{_wait(self.minority)} while {majority} {_wait(self.majority)}"

    def where(self, note: str) -> list[Where]:
        """The place of every rank, with the call that it waits in; `note` is said of the minority."""
        return [
            Where.at(
                activity.place,
                rank=activity.rank,
                note=f"waiting in {activity.operation}{f', {note}' if note and activity in self.minority else ''}",
            )
            for activity in (*self.minority, *self.majority)
            if activity.place is not None
        ]


def _wait(activities: Sequence[RankActivity]) -> str:
    operations = " or ".join(sorted({activity.operation for activity in activities}))
    return f"{verb(activities, 'waits', 'wait')} in {operations}"
