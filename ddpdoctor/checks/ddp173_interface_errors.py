"""An interface counted errors: cable, transceiver or flow control."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.network import Network
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP173",
    name="interface-errors",
    summary="an interface has more than one error in 10,000 packets",
    severity=Severity.WARN,
    remedy="check with `ethtool -S INTERFACE` which counter grows (CRC: cable or transceiver; missed: ring buffer or interrupts)",
    background=True,
)

FEW_PACKETS = 10_000  # before that, one error would be a rate
# TCP's throughput falls with the root of the loss: at one in 10,000 a 10 Gbit/s link with 1 ms falls to 1.2
MANY = 1e-4


def check(network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each interface with errors in more than 1e-4 of its packets since it came up."""
    for each in network.hosts():
        for link in each.value.interfaces:
            if link.up and link.packets > FEW_PACKETS and link.errors > MANY * link.packets:
                yield RULE.finding(
                    f"{link.name} of {each.host} counted {link.errors} errors in {link.packets} packets",
                    hosts=(each.host,),
                    errors=link.errors,
                    packets=link.packets,
                )
