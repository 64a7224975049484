"""The interfaces chosen for collectives lead nowhere but into this host."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import GLOO, NCCL, gloo_choice, nccl_choice
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Interface, Network
from ddpdoctor.messages.skipped import ONE_HOST
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP166",
    name="socket-ifname-never-leaves-host",
    summary="the selected interface is loopback or a container bridge, but the job has several hosts",
    severity=Severity.FAIL,
    remedy="select the interface that reaches the other hosts: `ip route get ADDRESS-OF-ANOTHER-HOST` prints it",
    explains=("DDP212", "DDP214", "DDP215"),
    background=True,
)

INSIDE = ("docker", "br-", "virbr", "veth", "cni", "cbr", "podman", "lxc", "lxd", "flannel", "cali")


def check(environment: PerRank[Environment], network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each host and variable whose every chosen interface stays inside the host."""
    networks = {entry.host: entry.value for entry in network}
    if len(networks) < 2:
        raise SkipCheck(ONE_HOST)
    for each in environment.hosts():
        here = networks.get(each.host)
        if here is None:
            continue
        gloo, nccl = each.value.variables.get(GLOO), each.value.variables.get(NCCL)
        for variable, value, chosen in (
            (GLOO, gloo, gloo_choice(gloo, here).found if gloo else ()),
            (NCCL, nccl, nccl_choice(nccl, here) if nccl else ()),
        ):
            if chosen and all(_inside(interface) for interface in chosen):
                names = ", ".join(interface.name for interface in chosen)
                yield RULE.finding(
                    f"{variable}={value} on {each.host} selects {names}, which does not reach other hosts",
                    ranks=each.ranks,
                    hosts=(each.host,),
                    variable=variable,
                    value=value,
                )


def _inside(interface: Interface) -> bool:
    return interface.loopback or (interface.virtual and interface.name.startswith(INSIDE))
