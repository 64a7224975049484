"""A rank waits in the kernel, in IO that no signal ends, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP317",
    name="rank-stuck-in-uninterruptible-io",
    summary="a rank is in uninterruptible IO (state D), as on a network file system that is gone, while its peers wait for it",
    severity=Severity.FAIL,
    shown_by="`ps -o pid,stat,wchan` shows D for the process of one rank",
    remedy="see whether the file system answers on that host (`ls PATH`, `dmesg`); SIGKILL does not end such a process",
    explains=("DDP314", "DDP408"),
)


def check(hang: Hang) -> Iterator[Finding]:
    """One finding per rank, with the file and the place in the kernel as far as /proc tells."""
    for activity in hang.culprits(Activity.UNINTERRUPTIBLE):
        state = activity.process
        if state is None:
            continue
        kernel = f", in the kernel's {state.kernel_function}" if state.kernel_function else ""
        yield RULE.finding(
            f"{hang.said_of([activity])}{kernel}; {hang.wait_for([activity])}",
            ranks=(activity.rank,),
            where=hang.where([activity]),
            pid=state.pid,
            system_call=state.system_call,
            waits_on=state.waits_on,
            kernel_function=state.kernel_function,
            seconds=hang.seconds,
        )
