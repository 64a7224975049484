"""More processes met in the store of the rendezvous than the job has: the store is older than the job, or another's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

_COUNTS = re.compile(r"world_size=(\d{1,18}), worker_count=(\d{1,18})(?!\d)")


def _more_came(text: str) -> bool:
    return any(int(came) > int(size) for size, came in _COUNTS.findall(text))


RULE = Rule(
    code="DDP228",
    name="store-reused",
    summary="more processes met in the rendezvous store than the job has",
    severity=Severity.FAIL,
    shown_by="`worker_count` is above `world_size`: a file:// store or a port is left over from another run",
    remedy="delete the file of a `file://` init_method before each start (or use a new name); give each job a port of "
    "its own; and do not call init_process_group again over the store of a group that is still there",
    explains=("DDP205", "DDP401", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"world_size=(?P<size>\d{1,18}), worker_count=(?P<came>\d{1,18})(?!\d)",
            sentence="{came} processes met in a rendezvous of {size} (world_size={size}, worker_count={came}): its store "
            "was used "
            "before, or by another job",
            applies=_more_came,
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """How many came, and how many there should be. Who came first does not show who is wrong: no rank is named."""
    for finding in known_errors(RULE, failures):
        counts = {name: int(str(finding.measured[name])) for name in ("size", "came")}
        yield replace(finding, ranks=(), measured=counts)
