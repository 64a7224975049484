"""DDP122 clocks-disagree."""

from __future__ import annotations

from ddpdoctor.evidence.host import Clock
from ddpdoctor.model import Severity
from tests.checks import Sick, ranks

OWN = Clock(ahead_seconds=0.0, error_seconds=0.0)
SICK = (
    Sick(
        evidence=ranks(OWN, Clock(ahead_seconds=-42.31, error_seconds=0.001)),
        says="the clock of host-b is 42.3 s behind rank 0's host (±0.001 s)",
        ranks=(1,),
        hosts=("host-b",),
        measured={"ahead_seconds": -42.31, "error_seconds": 0.001},
        severity=Severity.FAIL,
    ),
)
HEALTHY = (
    ranks(OWN, Clock(ahead_seconds=0.02, error_seconds=0.001)),
    ranks(OWN, Clock(ahead_seconds=1.5, error_seconds=0.9)),
)
