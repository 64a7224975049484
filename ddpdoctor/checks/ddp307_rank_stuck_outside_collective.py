"""A rank sleeps, waits for a lock, a file, a connection or a subprocess, or computes, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis import dead_threads
from ddpdoctor.analysis.absence import Absences
from ddpdoctor.analysis.doing import Doings
from ddpdoctor.analysis.standstill import Standstill
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.analysis.wording import names, verb, witnesses
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import ThreadErrors
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

REMEDIES = {
    Activity.SLEEP: "take the sleep out, or let every rank sleep",
    Activity.LOCK: "find who holds the lock: a thread of this rank that waits for another lock, or that ended with it",
    Activity.HANDOVER: "look at the other end (of the queue, the event, the pool): what should hand it over or take it waits "
    "itself, or has ended",
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


def check(
    standstill: Standstill | None,
    doings: Doings | None,
    absences: Absences | None,
    errors: PerRank[ThreadErrors] | None,
) -> Iterator[Finding]:
    """One finding for all ranks that are kept by the same kind of thing; without stacks, where they were last."""
    if standstill is not None:
        yield from _by_stacks(standstill, errors)
    elif absences is None:
        raise SkipCheck(
            "no rank waits for another one, and there is no FlightRecord" if doings else "no Stacks, no FlightRecord"
        )
    elif doings is None:
        yield from _by_recorders(absences)


def _by_recorders(absences: Absences) -> Iterator[Finding]:
    for absence in absences.found:
        waiting = sorted(absence.waiting)
        last = f"; the last that {verb(absence.absent, 'it', 'they')} called was {names(absence.last, absence.absent)}"
        yield RULE.finding(
            f"{group_ranks(absence.absent)} did not come to {names(absence.waiting, waiting)}, in which {group_ranks(waiting)} "
            f"{verb(waiting, 'waits', 'wait')}{last if absence.last else ''}",
            ranks=absence.absent,
            where=[*witnesses(absence.last, absence.absent), *witnesses(absence.waiting, waiting)],
            remedy="look at what this rank does behind its last call: `ddpdoctor hang` shows it while it hangs",
            waiting=waiting,
        )


def _by_stacks(standstill: Standstill, errors: PerRank[ThreadErrors] | None) -> Iterator[Finding]:
    for activity in OUTSIDE:
        culprits = standstill.culprits(activity)
        if culprits:
            died = dead_threads.of_ranks(errors, [doing.rank for doing in culprits])
            yield RULE.finding(
                f"{standstill.said_of(culprits)}; {standstill.wait_for(culprits)}",
                ranks=[doing.rank for doing in culprits],
                where=[*dead_threads.where(died), *standstill.where(culprits)],
                details=dead_threads.told(died),
                remedy=dead_threads.REMEDY if died else REMEDIES.get(activity),
                activity=activity.value,
                waiting=[doing.rank for doing in standstill.waiting],
                seconds=standstill.seconds,
                moves=culprits[0].moves,
            )
