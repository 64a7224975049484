"""The rendezvous of torchrun's agents ended while the job ran: its host is gone, or it was closed before a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP226",
    name="rendezvous-ended",
    summary="the rendezvous of torchrun's agents ended while the job ran",
    severity=Severity.FAIL,
    shown_by="the ranks ran before, and the agents' last lines name RendezvousClosedError or RendezvousConnectionError",
    remedy="look at the node that hosts the rendezvous (the host of --rdzv-endpoint) and at the rank that failed first; "
    "start all "
    "agents of a restarted job anew with another --rdzv-id, and close none by hand while others restart",
    errors=(
        ErrorPattern(
            regex=r"RendezvousClosedError",
            sentence="torchrun's agent met a rendezvous that was already closed (RendezvousClosedError)",
            note="another agent closed it: it gave up, had no restarts left, or its job had ended; its log shows why",
        ),
        ErrorPattern(
            regex=r"RendezvousConnectionError|failed to send a keep-alive heartbeat to the rendezvous",
            sentence="torchrun's agent has no connection to the store of the rendezvous (RendezvousConnectionError)",
        ),
        ErrorPattern(
            regex=r"RendezvousGracefulExitError|RendezvousStateError",
            sentence="torchrun's agent could not go on with the rendezvous: {words}",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """What the agent met. Of a closed rendezvous the log of one agent does not show who closed it: a warning."""
    for finding in known_errors(RULE, failures):
        closed = "RendezvousClosedError" in finding.message
        yield replace(finding, ranks=(), where=(), severity=Severity.WARN if closed else finding.severity)
