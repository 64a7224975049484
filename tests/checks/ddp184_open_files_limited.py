from ddpdoctor.evidence.limits import Limits
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host

SICK = (
    Sick(
        evidence=one_host(Limits(open_files=1024)),
        says="a process on host-a may open 1024 files; 8192 are advised",
        hosts=("host-a",),
        severity=Severity.WARN,
    ),
    Sick(
        evidence=one_host(Limits(open_files=256)),
        says="a process on host-a may open 256 files; 8192 are advised",
        hosts=("host-a",),
        severity=Severity.FAIL,
    ),
)
HEALTHY = (one_host(Limits(open_files=8192)), one_host(Limits(open_files="unlimited")))
