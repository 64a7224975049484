"""Between two looks: the steps among which replicas parted, where not every step was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.divergences import aligned
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.track import Track
from ddpdoctor.model import Report

# findings that say at which optimizer step the ranks parted; the others are about a start, an epoch or a data set
ABOUT_A_STEP = frozenset({"DDP503", "DDP504", "DDP505", "DDP506", "DDP507", "DDP508", "DDP509", "DDP510", "DDP517"})

# those about what some line of the user's wrote between the calls that are followed
WRITTEN_AT_FIRST = frozenset({"DDP505", "DDP509"})
WRITTEN = WRITTEN_AT_FIRST | {"DDP506", "DDP507"}


@dataclass(frozen=True, slots=True)
class Window:
    """The ranks were equal at `equal_at` (-1: at the start) and found apart at `apart_at`; nobody looked in between."""

    equal_at: int
    apart_at: int

    def __contains__(self, step: int) -> bool:
        return self.equal_at < step <= self.apart_at

    @property
    def is_open(self) -> bool:
        """Whether it holds several steps."""
        return self.apart_at - self.equal_at > 1

    def __str__(self) -> str:
        return f"steps {self.equal_at + 1} to {self.apart_at}"


def window_left(report: Report, tracks: PerRank[Track]) -> Window | None:
    """The window in which the report's headline leaves its step; None where the step is exact."""
    step = headline_step(report)
    if step is None:
        return None
    looked_at = [max(one.step for one in seen.values()) for seen in aligned({one.rank: one.value for one in tracks})]
    before = max((other for other in looked_at if other < step), default=-1)
    return Window(before, step) if step - before > 1 else None


def line_left(report: Report) -> Window | None:
    """The step before which a line of the user's wrote what the headline is about; None where it is about nothing written.

    What was there before the first step, other than gradients and weights, was not written between two steps.
    """
    step = headline_step(report)
    if step is None or report.findings[0].code not in (WRITTEN if step else WRITTEN_AT_FIRST):
        return None
    return Window(step - 1, step)


def headline_step(report: Report) -> int | None:
    """The optimizer step at which the first finding was seen, where it has one."""
    for finding in report.findings[:1]:
        step, seen = finding.measured.get("step"), finding.measured.get("seen", -1)
        if finding.code in ABOUT_A_STEP and isinstance(step, int) and isinstance(seen, (int, float)):
            return max(step, int(seen))
    return None


def same_until(first: PerRank[Track], again: PerRank[Track], window: Window) -> bool:
    """Whether two runs of a script held the same weights on each rank, at the start and at every step before `window`."""
    if first.ranks != again.ranks:
        return False
    for rank in first.ranks:
        one, other = first[rank], again[rank]
        after = {step.step: step.after for step in other.steps}
        before = [step for step in one.steps if step.step <= window.equal_at]
        if one.start != other.start or any(after.get(step.step) != step.after for step in before):
            return False
    return True
