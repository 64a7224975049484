from ddpdoctor.evidence.variables import NcclConfigFiles
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables


def conf(**settings: str) -> NcclConfigFiles:
    return NcclConfigFiles(files={"/etc/nccl.conf": settings})


SICK = (
    Sick(
        evidence=one_host(conf(NCCL_SOCKET_IFNAME="eth1"), variables()),
        says="/etc/nccl.conf on host-a sets NCCL_SOCKET_IFNAME=eth1",
        hosts=("host-a",),
        severity=Severity.INFO,
        measured={"settings": {"NCCL_SOCKET_IFNAME": "eth1"}},
    ),
    Sick(
        evidence=one_host(conf(NCCL_DEBUG="WARN"), variables(NCCL_DEBUG="INFO")),
        says="/etc/nccl.conf on host-a sets NCCL_DEBUG=WARN; the environment sets NCCL_DEBUG=INFO, which takes precedence",
        hosts=("host-a",),
        severity=Severity.WARN,
        measured={"settings": {"NCCL_DEBUG": "WARN"}},
    ),
    Sick(
        evidence=ranks((conf(NCCL_DEBUG="WARN"), variables()), (conf(NCCL_DEBUG="INFO"), variables())),
        says="/etc/nccl.conf differs between hosts",
        severity=Severity.WARN,
    ),
)
HEALTHY = (one_host(NcclConfigFiles(files={}), variables()), one_host(conf(), variables()))
