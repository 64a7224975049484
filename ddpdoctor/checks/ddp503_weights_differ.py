"""Replicas that were trained and no longer hold the same weights."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.messages.replicas import differing, value_finding
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Writer

RULE = Rule(
    code="DDP503",
    name="weights-differ",
    summary="replicas no longer hold the same weights",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor verify-sync` finds equal weights at first and different ones later",
    remedy="run `ddpdoctor verify-sync --nproc N --every 1 --replay SCRIPT`: it names the step and the line "
    "that writes, or makes the step again",
    about_step=True,
    writer=Writer.ANY_TIME,
)


def check(replicas: Replicas) -> Iterator[Finding]:
    """The first parameter that differs after the training began."""
    if not replicas.stepped:
        raise SkipCheck("the model had not been trained yet when it was compared")
    differences = differing(replicas, "parameter")
    if differences:
        yield value_finding(RULE, replicas, differences, "parameters")
