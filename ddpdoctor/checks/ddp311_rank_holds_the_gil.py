"""A C function on one rank holds the interpreter's lock and does not come back, while its peers wait."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.model import Finding, Rule, Severity

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


def check(hang: Hang) -> Iterator[Finding]:
    """One finding per rank, with the C function on top where py-spy could tell it."""
    for activity in hang.culprits(Activity.GIL):
        function = f" in {activity.native}" if activity.native else " in a C function"
        yield RULE.finding(
            f"{hang.who([activity])} holds the GIL{function}; {hang.wait_for([activity])}",
            ranks=(activity.rank,),
            where=hang.where([activity]),
            native=activity.native or None,
            seconds=hang.seconds,
        )
