"""MASTER_PORT lies in the range from which the kernel gives ports to outgoing connections."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.network import Master, Network
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP219",
    name="master-port-ephemeral",
    summary="an outgoing connection can take MASTER_PORT at any time",
    severity=Severity.WARN,
    shown_by="MASTER_PORT is within /proc/sys/net/ipv4/ip_local_port_range, and the start fails only sometimes",
    remedy="choose a MASTER_PORT below the range, such as 29500, or reserve it: `sysctl net.ipv4.ip_local_reserved_ports=PORT`",
)


def check(master: PerRank[Master], network: PerRank[Network], launch: PerRank[Launch] | None) -> Iterator[Finding]:
    """A finding where somebody chose such a port by hand; torchrun's agent holds its port already, whatever it is."""
    if launch is not None and any(entry.value.launcher == "torchrun" for entry in launch):
        return
    hosts = {entry.host: entry.value for entry in network}
    first = master.entries[0]
    port, here = first.value.port, hosts.get(first.host)
    if port is None or here is None or here.ephemeral_ports is None:
        raise SkipCheck("MASTER_PORT is not set, or ip_local_port_range could not be read")
    low, high = here.ephemeral_ports
    if low <= port <= high and not any(start <= port <= end for start, end in here.reserved_ports):
        yield RULE.finding(
            f"MASTER_PORT={port} lies in the ephemeral range {low}-{high} of {first.host}",
            hosts=(first.host,),
            port=port,
            low=low,
            high=high,
        )
