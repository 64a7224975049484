"""The host of the store looks up the name of each client's address, and does not find it: seconds for each connection."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

TEXT = "hostname of the client socket cannot be retrieved"
RULE = Rule(
    code="DDP230",
    name="reverse-dns-slow",
    summary="the host of the store cannot look up the names of its clients, which takes seconds for each",
    severity=Severity.INFO,
    shown_by="`getent hosts ADDRESS` on the store's host takes seconds for the address of a client",
    remedy="give the nodes' addresses names (/etc/hosts or reverse DNS), or ignore it: only the start is slower",
    errors=(
        ErrorPattern(
            regex=TEXT, note="a reverse lookup failed; it delays the start and breaks nothing", applies=lambda _: False
        ),
    ),
)


def check(log: JobLog) -> Iterator[Finding]:
    """How often a lookup failed. Nothing fails because of it: information."""
    lines = [line for line in log.remarks if TEXT in line]
    if lines:
        times = "once" if len(lines) == 1 else f"{len(lines)} times"
        yield RULE.finding(
            f"the name of a client's address could not be looked up {times}; each lookup can delay the rendezvous by 10 s",
            lookups=len(lines),
        )
