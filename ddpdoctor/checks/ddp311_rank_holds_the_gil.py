"""A C function on one rank holds the interpreter's lock and does not come back, while its peers wait or have ended."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.last_ranks import LastRanks
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP311",
    name="rank-holds-the-gil",
    summary="a C function of one rank never gives the GIL back, so that no other thread of it can run, while its peers wait",
    severity=Severity.FAIL,
    shown_by="py-spy shows one thread in a C function that holds the GIL: `ddpdoctor hang`",
    remedy="release the GIL around the C call (`Py_BEGIN_ALLOW_THREADS`, pybind11's `call_guard<gil_scoped_release>`, "
    "`ctypes.CDLL` instead of `PyDLL`)",
    explains=("DDP314", "DDP408"),
)


OF_A_GROUP = (
    "call `torch.distributed.destroy_process_group()` as the last statement on every rank: PyTorch joins the threads of the "
    "process group when its last reference goes, and holds the GIL that one of them waits for"
)


def check(hang: Hang | None, last_ranks: LastRanks | None) -> Iterator[Finding]:
    """One finding per rank, with the C function on top where py-spy could tell it."""
    seen = hang or last_ranks
    if seen is None:
        raise SkipCheck("no rank waits for another one, and no rank has ended before the others")
    for activity in seen.culprits(Activity.GIL):
        function = f" in {activity.native}" if activity.native else " in a C function"
        yield RULE.finding(
            f"{seen.who([activity])} holds the GIL{function}; {seen.wait_for([activity])}",
            ranks=(activity.rank,),
            where=seen.where([activity]),
            remedy=OF_A_GROUP if any("~ProcessGroup" in frame for frame in activity.native_stack) else None,
            native=activity.native or None,
            seconds=seen.seconds,
        )
