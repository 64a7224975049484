"""When a job is stalled: from its own rhythm, or from the patience that the user gave."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

LEAST_SECONDS = 30.0  # a checkpoint, an evaluation, a garbage collection: shorter pauses are everyday
TIMES_LONGEST_PAUSE = 3.0  # a job that has paused for a minute and gone on may do so again
FIRST_STEP_SECONDS = 120.0  # before the first step: compilation, cuDNN's choice of algorithms, a cold file system
WHILE_MOVING = 10.0  # times more patience, unless the user set it, for a rank that visibly works


@dataclass(slots=True)
class StallDetector:
    """Follows a job's signs of life. All times are seconds of one monotonic clock."""

    given: float | None = None
    """The user's `--stall-after`, which holds whatever the ranks look like. Without it the patience adapts to the longest pause
    that the job survived."""
    _last: Hashable = None
    _since: float | None = None
    _longest: float = 0.0
    stepped: bool = False
    """Whether every rank has made a step."""

    def observe(self, signs: Hashable, now: float, *, stepped: bool) -> bool:
        """Note the job's signs of life (counters of steps and calls); True where they differ from the last ones.

        `stepped` says that every rank has made a step: before, a pause may be a compilation, and tells no rhythm.
        """
        if self._since is not None and signs == self._last:
            return False
        if self._since is not None and self.stepped:
            self._longest = max(self._longest, now - self._since)
        self.stepped = stepped
        self._last, self._since = signs, now
        return True

    def quiet(self, now: float) -> float:
        """For how long there has been no sign of life; 0 before the first."""
        return now - self._since if self._since is not None else 0.0

    def patience(self, *, moving: bool = False) -> float:
        """How long a pause may be before it counts; `moving` where the rank that the others wait for visibly works."""
        if self.given is not None:
            return self.given
        adapted = max(LEAST_SECONDS, TIMES_LONGEST_PAUSE * self._longest)
        if not self.stepped:
            adapted = max(adapted, FIRST_STEP_SECONDS)
        return adapted * (WHILE_MOVING if moving else 1.0)
