from tests.checks import Sick, one_host
from tests.checks.hosts import network, variables


def gloo(value: str):
    return one_host(network(), variables(GLOO_SOCKET_IFNAME=value))


SICK = tuple(
    Sick(
        evidence=gloo(value),
        says=f"GLOO_SOCKET_IFNAME={value} on host-a uses NCCL's syntax; gloo accepts exact names only",
        hosts=("host-a",),
        measured={"value": value, "meant": ["eth0"]},
    )
    for value in ("eth", "=eth0", "^lo", "^docker,lo")
)
HEALTHY = (gloo("eth0"), gloo("eth0,lo"))
