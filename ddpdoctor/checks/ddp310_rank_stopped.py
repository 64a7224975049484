"""A rank's process is stopped (SIGSTOP, or a debugger holds it), while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.standstill import Standstill
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP310",
    name="rank-stopped",
    summary="the process of a rank is stopped, by SIGSTOP or by a tracer, while its peers wait for it",
    severity=Severity.FAIL,
    remedy="let it go on with `kill -CONT PID`; job schedulers and container runtimes stop processes, and so does Ctrl-Z",
    explains=("DDP314", "DDP408"),
)
HOW = {"T": "by a signal such as SIGSTOP", "t": "by a tracer such as gdb"}


def check(standstill: Standstill) -> Iterator[Finding]:
    """One finding a rank: the process to be continued is its own."""
    for doing in standstill.culprits(Activity.STOPPED):
        if doing.process is not None:
            yield RULE.finding(
                f"{standstill.who([doing])} is stopped {HOW.get(doing.process.state, '')} (process {doing.process.pid}, state "
                f"{doing.process.state}); {standstill.wait_for([doing])}",
                ranks=(doing.rank,),
                where=standstill.where([doing]),
                remedy=RULE.remedy.replace("PID", str(doing.process.pid)),
                pid=doing.process.pid,
                state=doing.process.state,
                seconds=standstill.seconds,
            )
