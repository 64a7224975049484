"""DDP was told to look for unused parameters, and found none in the first forward."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

TEXT = "did not find any unused parameters"
RULE = Rule(
    code="DDP604",
    name="find-unused-parameters-needless",
    summary="DDP looks for unused parameters in every step, and found none in the first one",
    severity=Severity.INFO,
    shown_by="the first forward uses every parameter: torch's reducer says so once on each rank",
    remedy="leave out find_unused_parameters=True, where no step leaves a part of the model out: each step then saves a walk "
    "through the graph of autograd; keep it where the forward takes other branches later",
    errors=(
        ErrorPattern(
            regex=TEXT,
            note="torch's hint that find_unused_parameters=True may be needless; it costs time and breaks nothing",
            applies=lambda _: False,
        ),
    ),
)


def check(log: JobLog) -> Iterator[Finding]:
    """Torch's warning in the log. It fails nothing, and is false where later steps take other branches: information."""
    if any(TEXT in line for line in log.remarks):
        yield RULE.finding("DDP looks for unused parameters in every step, and found none in the first one")
