"""A rank's process is stopped (SIGSTOP, or a debugger holds it), while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP310",
    name="rank-stopped",
    summary="the process of a rank is stopped, by SIGSTOP or by a tracer, while its peers wait for it",
    severity=Severity.FAIL,
    shown_by="`ps -o pid,stat` shows T or t for the process of one rank",
    remedy="let it go on with `kill -CONT PID`; job schedulers and container runtimes stop processes, and so does Ctrl-Z",
    explains=("DDP314", "DDP408"),
)
HOW = {"T": "by a signal such as SIGSTOP", "t": "by a tracer such as gdb"}


def check(hang: Hang) -> Iterator[Finding]:
    """One finding per rank: the process to be continued is its own."""
    for activity in hang.culprits(Activity.STOPPED):
        if activity.process is not None:
            yield RULE.finding(
                f"{hang.who([activity])} is stopped {HOW.get(activity.process.state, '')} (process {activity.process.pid}, state "
                f"{activity.process.state}); {hang.wait_for([activity])}",
                ranks=(activity.rank,),
                where=hang.where([activity]),
                remedy=RULE.remedy.replace("PID", str(activity.process.pid)),
                pid=activity.process.pid,
                state=activity.process.state,
                seconds=hang.seconds,
            )
