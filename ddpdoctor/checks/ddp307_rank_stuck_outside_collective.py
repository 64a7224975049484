"""A rank sleeps, waits for a lock, a file, a connection or a subprocess, or computes, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.standstill import Standstill
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.model import Finding, Rule, Severity

REMEDIES = {
    Activity.SLEEP: "take the sleep out, or let every rank sleep",
    Activity.LOCK: "find who holds the lock: a thread of this rank that waits for another lock, or that ended with it",
    Activity.FILE: "see whether the file system answers on that host (`ls` the path there), and read it before training",
    Activity.SOCKET: "give the connection a timeout, and see whether the other end answers from that host",
    Activity.SUBPROCESS: "look at the subprocess, and give the wait for it a timeout",
    Activity.COMPUTING: "share the work among the ranks, or raise the timeout of the group that the others wait in",
}
OUTSIDE = (*REMEDIES, Activity.UNKNOWN)

RULE = Rule(
    code="DDP307",
    name="rank-stuck-outside-collective",
    summary="a rank does something of its own and does not come to the collective that its peers wait in",
    severity=Severity.FAIL,
    remedy="let every rank come to the collective: look at the line that this rank is in",
    explains=("DDP314", "DDP408"),
)


def check(standstill: Standstill) -> Iterator[Finding]:
    """One finding for all ranks that are kept by the same kind of thing."""
    for activity in OUTSIDE:
        culprits = standstill.culprits(activity)
        if culprits:
            yield RULE.finding(
                f"{standstill.said_of(culprits)}; {standstill.wait_for(culprits)}",
                ranks=[doing.rank for doing in culprits],
                where=standstill.where(culprits),
                remedy=REMEDIES.get(activity),
                activity=activity.value,
                waiting=[doing.rank for doing in standstill.waiting],
                seconds=standstill.seconds,
                moves=culprits[0].moves,
            )
