"""Between two looks: the steps among which replicas diverged, where not every step was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.replicas.aligned_steps import aligned, step_of
from ddpdoctor.analysis.replicas.divergences.results import Corrupted
from ddpdoctor.evidence import Evidence, PerRank, by_rank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.messages.divergence import LOAD, WRITE
from ddpdoctor.model import Finding, Report, Severity, Writer


@dataclass(frozen=True, slots=True)
class StepRange:
    """The steps between two looks, of which the first found all ranks equal and the second did not."""

    equal_at: int
    """The last step after which the ranks were found equal; -1 for the start."""
    apart_at: int
    """The next step that was looked at, after which they differ."""

    def __contains__(self, step: int) -> bool:
        return self.equal_at < step <= self.apart_at

    @property
    def is_open(self) -> bool:
        """Whether it holds several steps."""
        return self.apart_at - self.equal_at > 1

    def __str__(self) -> str:
        return f"steps {self.equal_at + 1} to {self.apart_at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """What a report leaves open, and a second run could tell."""

    window: StepRange
    """The steps of which one is the step of the divergence."""
    line: bool = False
    """Whether a line wrote, and it is not known which."""
    tensor: str = ""
    """The tensor of which no element that differs is known; empty where one is."""
    repetition: bool = False
    """Whether it is open if the step gives the same weights when it is made again."""

    def __str__(self) -> str:
        element = f"the element in which {self.tensor} differs"
        again = "whether the step gives the same weights again"
        asked = ["the line that did it"] * self.line + [element] * bool(self.tensor) + [again] * self.repetition
        return " and ".join(asked)


def left_open(report: Report, tracks: PerRank[Track]) -> OpenQuestion | None:
    """What a second run could tell of the report's headline; None where nothing is left open.

    What was there before the first step, other than gradients and weights, was not written between two steps.
    """
    step = headline_step(report)
    if step is None:
        return None
    looked_at = [step_of(seen) for seen in aligned(by_rank(tracks))]
    every_step = all(entry.value.every == 1 for entry in tracks)
    window = StepRange(
        step - 1 if every_step else max((other for other in looked_at if other < step), default=-1), step
    )
    line = _line_unknown(report.findings[0], step)
    tensor = _not_located(report, step, tracks)
    repetition = _not_repeated(report)
    if not (window.is_open or line or tensor or repetition):
        return None
    return OpenQuestion(window=window, line=line, tensor=tensor, repetition=repetition)


def unseen_steps(report: Report, evidence: Evidence) -> Iterator[str]:
    """Said in the report of a watched job whose replicas diverged at one of several steps that nobody looked at."""
    tracks = evidence.per_rank(Track)
    left = left_open(report, tracks) if tracks is not None else None
    if left is not None and left.window.is_open:
        yield f"the ranks diverged somewhere in {left.window}: `ddpdoctor watch --verify-sync=1` compares them at every step"


def _line_unknown(first: Finding, step: int) -> bool:
    """Whether a line wrote what `first` is about, and it shows another one."""
    if first.severity is Severity.INFO or first.measured.get("shown") in {WRITE, LOAD}:
        return False
    return first.rule.writer is Writer.ANY_TIME or (first.rule.writer is Writer.BETWEEN_STEPS and step > 0)


def _not_repeated(report: Report) -> bool:
    """Whether a step is not reproducible, and no rank has made it again."""
    first = report.findings[0]
    in_step = first.measured.get("cause") in {Corrupted.STEP.value, Corrupted.NONDETERMINISTIC.value}
    return first.code == "DDP525" and in_step and "repeated" not in first.measured


def _not_located(report: Report, step: int, tracks: PerRank[Track]) -> str:
    """The parameter, followed as a whole, that differs after `step` and of which no element that differs is known."""
    for finding in report.findings:
        name, at, index = (finding.measured.get(what) for what in ("tensor", "step", "index"))
        if finding.code == "DDP503" and at == step and index is None:
            return next(
                (str(name) for track in tracks for table in track.value.tables.values() if name in table.digests), ""
            )
    return ""


def headline_step(report: Report) -> int | None:
    """The optimizer step at which the first finding was seen, where it has one."""
    for finding in report.findings[:1]:
        step, seen = finding.measured.get("step"), finding.measured.get("seen", -1)
        if finding.rule.about_step and isinstance(step, int) and isinstance(seen, (int, float)):
            return max(step, int(seen))
    return None


def same_until(first: PerRank[Track], again: PerRank[Track], window: StepRange) -> bool:
    """Whether two runs of a script held the same weights on each rank, at the start and at every step before `window`."""
    if first.ranks != again.ranks:
        return False
    for rank in first.ranks:
        one, other = first[rank], again[rank]
        after = {step.key: step.after for step in other.steps}
        before = [step for step in one.steps if step.step <= window.equal_at]
        if one.start != other.start or any(after.get(step.key) != step.after for step in before):
            return False
    return True
