"""How many forwards and steps a rank has made: what names the same step on all ranks."""

from __future__ import annotations

from torch.optim import Optimizer

from ..by_identity import ByIdentity
from ..schema.final_records import LastSettings, OptimizerSteps
from ..trace_writer import user_line
from .optimizer_settings import Settings

MOST_OPTIMIZERS = 64  # whose steps are counted each


class StepCounts:
    """Counts of one rank. A step counts where it steps a wrapped model; a probe may step another one on one rank alone."""

    def __init__(self) -> None:
        self.forwards = 0
        """Forwards through a wrapper."""
        self.steps = 0
        """Steps of wrapped models."""
        self.since = 0
        """Steps of wrapped models since the last of these forwards, made or left out."""
        self.shadowed = 0
        """Steps of peers, in which this rank only took part inside `Join`."""
        self._beside = 0

    @property
    def clock(self) -> int:
        """A number that grows with every forward and step, and is the same on all ranks."""
        return self.forwards + self.since

    @property
    def stepped_since_forward(self) -> bool:
        """Whether an optimizer has stepped since the last forward."""
        return self.forwards > 0 and self.since + self._beside > 0

    def beside(self, *, counted: bool) -> int:
        """The number, since the last forward, of the step that is made now, where it is not `counted`; else 0."""
        return 0 if counted else self._beside + 1

    def restart(self) -> None:
        """The first model was wrapped: steps before are another story, of one rank perhaps."""
        self.steps = self.since = 0

    def forward(self) -> None:
        """A wrapper was called."""
        self.forwards += 1
        self.since = self._beside = 0

    def step(self, *, counted: bool) -> None:
        """An optimizer has stepped."""
        self.steps += counted
        self.since += counted
        self._beside = self.beside(counted=counted)

    def left_out(self, *, counted: bool) -> None:
        """A GradScaler has left out the step of an optimizer: no step, but this forward is over."""
        self.since += counted
        self._beside = self.beside(counted=counted)

    def shadow(self, *, stepped: bool) -> None:
        """This rank took part in a forward of its peers, inside `Join`, and perhaps in their step."""
        self.forwards += 1
        self.steps += stepped
        self.shadowed += stepped
        self.since = int(stepped)


class StepsByOptimizer:
    """How many steps each optimizer made that steps a wrapped model, in the order of their first ones.

    Of a job that makes optimizers without end, the first `MOST_OPTIMIZERS`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers: ByIdentity[int] = ByIdentity()
        self._first: list[OptimizerSteps] = []
        self._counts: list[int] = []
        self._last: dict[int, LastSettings] = {}

    def counts(self, optimizer: Optimizer) -> bool:
        """Count a step of `optimizer`; returns False where it is its first one."""
        number = self._numbers.get(optimizer)
        if number is None:
            return False
        self._counts[number] += 1
        return True

    def step(self, optimizer: Optimizer, made: int) -> None:
        """`optimizer` has stepped, after `made` steps of all."""
        if self.counts(optimizer) or len(self._first) >= MOST_OPTIMIZERS:
            return
        self._numbers.put(optimizer, len(self._first))
        name, now = type(optimizer).__name__, self._settings.now(optimizer)
        self._first.append(OptimizerSteps(name, 0, user_line(), made, *now))
        self._counts.append(1)

    def look(self, moment: str) -> None:
        """Training may be over: know what those optimizers would step with next that have stepped since the latest look."""
        for optimizer in self._settings.optimizers:
            number = self._numbers.get(optimizer)
            known = self._last.get(number) if number is not None else None
            if number is not None and (known is None or known.steps < self._counts[number]):
                now = self._settings.now(optimizer)
                self._last[number] = LastSettings(self._counts[number], moment, *now)

    def forget(self) -> None:
        """The first model was wrapped: steps before are another story."""
        self._numbers = ByIdentity()
        self._last.clear()
        self._first.clear()
        self._counts.clear()

    @property
    def each(self) -> list[OptimizerSteps]:
        """Those of each optimizer."""
        each = zip(self._first, self._counts, strict=True)
        return [
            first._replace(steps=count, last=last if (last := self._last.get(number)) and last.steps == count else None)
            for number, (first, count) in enumerate(each)
        ]
