"""A host's clock is off by more than a second.

Logs of hosts whose clocks disagree cannot be merged.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Clock
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP122",
    name="clocks-disagree",
    summary="a host's clock is off by more than a second",
    severity=Severity.WARN,
    remedy="start time synchronisation on the host: `systemctl enable --now chronyd`, then `chronyc makestep`",
    background=True,
)

WARN_SECONDS = 1.0  # events of ranks can no longer be put in order
FAIL_SECONDS = 30.0  # certificates, file systems and rendezvous time-outs suffer as well


def check(clocks: PerRank[Clock]) -> Iterator[Finding]:
    """One finding per host whose clock is off from rank 0's by more than a second and by more than the error."""
    for entry in clocks:
        ahead, error = entry.value.ahead_seconds, entry.value.error_seconds
        certain = abs(ahead) - error
        if certain <= WARN_SECONDS:
            continue
        yield RULE.finding(
            f"the clock of {entry.host} is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} rank 0's host "
            f"(±{error:.3f} s)",
            severity=Severity.FAIL if certain > FAIL_SECONDS else Severity.WARN,
            ranks=(entry.rank,),
            hosts=(entry.host,),
            ahead_seconds=ahead,
            error_seconds=error,
        )
