"""The launcher received SIGHUP: its terminal or ssh connection closed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP419",
    name="launcher-hung-up",
    summary="the launcher received SIGHUP: the terminal or the ssh connection was closed",
    severity=Severity.WARN,
    shown_by="the launcher's line names SIGHUP or signal 1",
    remedy="start it inside tmux or screen, with `setsid`, or under a scheduler; nohup does not help, since torchrun "
    "handles SIGHUP itself",
    explains=("DDP226", "DDP401", "DDP403", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"Received (?:1|Signals\.SIGHUP|SIGHUP) death signal|SignalException: Process \d+ got signal: 1\b",
            note="SIGHUP: the terminal or the ssh connection of the launcher was closed",
            applies=lambda _: False,
        ),
    ),
)


def check(log: JobLog) -> Iterator[Finding]:
    """A warning: no rank is at fault, and what the job would have done the log does not show."""
    if log.signal == signal.SIGHUP:
        yield RULE.finding(
            "the launcher received SIGHUP (signal 1) and ended the job: its terminal or ssh connection was closed",
            details=[log.ended_by] if log.ended_by else (),
        )
