from ddpdoctor.evidence.limits import Limits
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host

SICK = (
    Sick(
        evidence=one_host(Limits(open_files=1024)),
        says="a process on host-a may open 1024 files; 8192 are recommended",
        hosts=("host-a",),
        severity=Severity.WARN,
        measured={"limit": 1024},
    ),
    Sick(
        evidence=one_host(Limits(open_files=256)),
        says="a process on host-a may open 256 files; 8192 are recommended",
        hosts=("host-a",),
        severity=Severity.FAIL,
        measured={"limit": 256},
    ),
)
HEALTHY = (one_host(Limits(open_files=8192)), one_host(Limits(open_files="unlimited")))
