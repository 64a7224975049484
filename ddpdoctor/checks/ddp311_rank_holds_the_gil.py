"""A C function on one rank holds the interpreter's lock and does not come back, while its peers wait."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.standstill import Standstill
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP311",
    name="rank-holds-the-gil",
    summary="a C function of one rank never gives the GIL back, so that no other thread of it can run, while its peers wait",
    severity=Severity.FAIL,
    remedy="release the GIL around the C call (`Py_BEGIN_ALLOW_THREADS`, pybind11's `call_guard<gil_scoped_release>`, "
    "`ctypes.CDLL` instead of `PyDLL`)",
    explains=("DDP314", "DDP408"),
)


def check(standstill: Standstill) -> Iterator[Finding]:
    """One finding a rank, with the C function on top where py-spy could tell it."""
    for doing in standstill.culprits(Activity.GIL):
        function = f" in {doing.native}" if doing.native else " in a C function"
        yield RULE.finding(
            f"{standstill.who([doing])} holds the GIL{function}; {standstill.wait_for([doing])}",
            ranks=(doing.rank,),
            where=standstill.where([doing]),
            native=doing.native or None,
            seconds=standstill.seconds,
        )
