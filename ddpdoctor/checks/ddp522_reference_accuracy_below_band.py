"""The reference job learned less than it does everywhere else, so something between the ranks is wrong here."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.performance.reference_accuracy import least_accuracy
from ddpdoctor.evidence.training import TrainingRun
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP522",
    name="reference-accuracy-below-band",
    summary="the reference job of ddpdoctor train ends below its expected accuracy",
    severity=Severity.FAIL,
    remedy="run `ddpdoctor train --parity`: it compares N ranks with one process and names the mistake that fits",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    """A finding where the accuracy of a run whose band is known lies below it."""
    if not run.complete:
        raise SkipCheck("--max-steps ended the run early")
    least = least_accuracy(run.dataset, run.model, len(run.epochs))
    if least is None:
        raise SkipCheck(
            f"no expected accuracy is known for {run.model} on {run.dataset} after {len(run.epochs)} epochs"
        )
    if run.accuracy < least:
        yield RULE.finding(
            f"{run.model} on {run.dataset} reaches {run.accuracy:.1%} on {run.test_samples} test samples with "
            f"{run.world_size} ranks; the expected minimum is {least:.1%}",
            ranks=range(run.world_size),
            accuracy=run.accuracy,
            least=least,
        )
