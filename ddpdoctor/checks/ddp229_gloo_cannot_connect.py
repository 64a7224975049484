"""Ranks met at the rendezvous, and gloo could not connect them with each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.messages.known_errors import known_errors
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP229",
    name="gloo-cannot-connect",
    summary="gloo could not connect ranks after the rendezvous",
    severity=Severity.FAIL,
    shown_by="the rendezvous worked, and the address behind `remote=` is not reachable from the rank: `ddpdoctor net`",
    remedy="let each host's own name resolve to the address that the others reach (`getent hosts $(hostname)`, not "
    "127.0.1.1), or "
    "export GLOO_SOCKET_IFNAME=INTERFACE on every host; open the ephemeral ports between the hosts (`ddpdoctor net` tries them)",
    explains=("DDP401", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"connectFullMesh failed with .{0,200}remote=\[(?P<addr>[^\]]{1,200})\]:(?P<port>\d{1,18})(?!\d)",
            sentence="gloo could not connect{on} to {addr} port {port} (connectFullMesh failed)",
        ),
        ErrorPattern(
            regex=r"connectFullMesh failed",
            sentence="gloo could not connect the ranks with each other{on}: connectFullMesh failed",
        ),
        ErrorPattern(
            regex=r"gloo/transport/tcp/\w+\.(?:cc|h):\d+\] connect \[(?P<addr>[^\]]{1,200})\]:(?P<port>\d{1,18}): "
            r"(?P<why>Connection (?:refused|timed out))",
            sentence="gloo could not connect{on} to {addr} port {port}: {why}",
        ),
        ErrorPattern(
            regex=r"gloo/transport/tcp/\w+\.(?:cc|h):\d+\] (?:[Cc]onnect timeout|timed out connecting)",
            sentence="gloo could not connect the ranks with each other{on}: connect timed out",
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """The address that did not answer. It does not show which side is wrong: no rank is named."""
    for finding in known_errors(RULE, failures):
        yield replace(finding, ranks=())
