from ddpdoctor.evidence.network import Infiniband, InfinibandPort
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables


def port(number: int, state: str = "ACTIVE", physical: str = "LinkUp", rate: str = "400 Gb/sec (4X NDR)"):
    return InfinibandPort(
        device=f"mlx5_{number}", port=1, state=state, physical_state=physical, rate=rate, link_layer="InfiniBand"
    )


def adapters(*ports: InfinibandPort) -> Infiniband:
    return Infiniband(ports=ports)


SICK = (
    Sick(
        evidence=one_host(adapters(port(0), port(1, "DOWN", "Polling")), variables(NCCL_IB_HCA="mlx5_0,mlx5_1")),
        says="mlx5_1:1 of host-a is DOWN (Polling) and NCCL_IB_HCA=mlx5_0,mlx5_1 selects it",
        hosts=("host-a",),
        severity=Severity.FAIL,
        measured={"state": "DOWN"},
    ),
    Sick(
        evidence=one_host(adapters(port(0), port(1, "INIT"))),
        says="mlx5_1:1 of host-a is INIT (LinkUp)",
        hosts=("host-a",),
        severity=Severity.WARN,
        measured={"state": "INIT"},
    ),
    Sick(
        evidence=ranks(adapters(port(0)), adapters(port(0)), adapters(port(0, rate="100 Gb/sec (4X EDR)"))),
        says="mlx5_0:1 of host-c runs at 100 Gb/sec (4X EDR); most ports run at 400 Gb/sec (4X NDR)",
        hosts=("host-c",),
        measured={"rate": "100 Gb/sec (4X EDR)", "usual": "400 Gb/sec (4X NDR)"},
    ),
)
HEALTHY = (
    one_host(adapters(port(0), port(1))),
    one_host(adapters(port(0), port(1, "DOWN", "Polling"))),
    one_host(adapters(port(0), port(1, "DOWN", "Polling")), variables(NCCL_IB_HCA="^mlx5_1")),
)
