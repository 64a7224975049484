"""The known-good job learned less than it does everywhere else, so something between the ranks is wrong here."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.accuracy_bands import least_accuracy
from ddpdoctor.evidence.training import TrainingRun
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP522",
    name="reference-accuracy-below-band",
    summary="the known-good job of ddpdoctor train ends below the accuracy that it reaches elsewhere",
    severity=Severity.FAIL,
    remedy="run `ddpdoctor train --parity`: it compares N ranks with one process and says which mistake looks so",
)


def check(run: TrainingRun) -> Iterator[Finding]:
    """A finding where the accuracy of a run whose band is known lies below it."""
    if not run.complete:
        raise SkipCheck("the run was cut short by --max-steps")
    least = least_accuracy(run.dataset, run.model, len(run.epochs))
    if least is None:
        raise SkipCheck(f"no band is known for {run.model} on {run.dataset} in {len(run.epochs)} epochs")
    if run.accuracy < least:
        yield RULE.finding(
            f"{run.model} on {run.dataset} ends at {run.accuracy:.1%} of {run.test_samples} test samples on {run.world_size} "
            f"ranks; at least {least:.1%} is reached elsewhere",
            ranks=range(run.world_size),
            accuracy=run.accuracy,
            least=least,
        )
