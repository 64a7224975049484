"""A parameter's gradient was ready twice in one step: checkpointed twice, or pre-marked behind an opaque output."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP405",
    name="parameter-marked-ready-twice",
    summary="a parameter's gradient was ready twice in one step",
    severity=Severity.FAIL,
    shown_by="the message says `marked ready`; a parameter or a re-entrant checkpoint is used twice in one step",
    remedy="use checkpoint(..., use_reentrant=False); with find_unused_parameters=True return tensors, dicts, tuples or "
    "dataclasses from forward, since DDP cannot look into other objects; do not use a parameter outside of forward",
    explains=("DDP306", "DDP307", "DDP314", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"Expected to mark a variable ready only once|has been marked as ready twice",
        ),
    ),
)

_WHICH = re.compile(r"Parameter at index (?P<index>\d{1,18})(?: with name (?P<name>\S+))? ha")


def check(failures: Failures) -> Iterator[Finding]:
    """The parameter, by name where the message has it, and the ranks."""
    found = failures.of("DDP405")
    if not found:
        return
    which = next((match for failure in found if (match := _WHICH.search(failure.text))), None)
    parameter = (which["name"] or f"number {which['index']}") if which is not None else "that the message does not name"
    ranks = unique_ranks(found)
    who = f" on {group_ranks(ranks)}" if ranks else ""
    yield RULE.finding(
        f"the gradient of parameter {parameter} was ready twice in one step{who}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where("backward")],
        parameter=which["name"] if which is not None else None,
        index=int(which["index"]) if which is not None else None,
    )
