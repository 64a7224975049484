"""An InfiniBand or RoCE port that NCCL would use is not active, or slower than its peers."""

from collections import Counter
from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Infiniband, InfinibandPort
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP174",
    name="infiniband-port-down",
    summary="an InfiniBand or RoCE port that NCCL would use is not active, or slower than its peers",
    severity=Severity.WARN,
    remedy="check `ibstat`: `Polling` or `Disabled` points to the cable or the switch port, `INIT` to a missing subnet "
    "manager; until it is repaired, exclude the port with NCCL_IB_HCA=^DEVICE",
    background=True,
)


def check(infiniband: PerRank[Infiniband], environment: PerRank[Environment] | None) -> Iterator[Finding]:
    """One finding for each port that is chosen and not active, has a link but is not active, or runs below its peers.

    A port without a link that no setting selects is an unused port.
    """
    hosts = infiniband.hosts()
    if not any(each.value.ports for each in hosts):
        raise SkipCheck("no InfiniBand or RoCE adapter on these hosts")
    chosen = {each.host: each.value.variables.get("NCCL_IB_HCA") for each in environment.hosts()} if environment else {}
    majority = Counter(port.rate for each in hosts for port in each.value.ports if port.active).most_common(1)
    for each in hosts:
        for port in each.value.ports:
            wanted = chosen.get(each.host)
            if not port.active:
                yield from _down(port, each.host, wanted)
            elif _used(port, wanted) and majority and _gigabits(port.rate) < _gigabits(majority[0][0]):
                yield RULE.finding(
                    f"{port.device}:{port.port} of {each.host} runs at {port.rate}; most ports run at {majority[0][0]}",
                    hosts=(each.host,),
                    rate=port.rate,
                    usual=majority[0][0],
                )


def _down(port: InfinibandPort, host: str, wanted: str | None) -> Iterator[Finding]:
    named = bool(wanted) and _used(port, wanted)
    if named or (not wanted and port.physical_state == "LinkUp"):
        by = f" and NCCL_IB_HCA={wanted} selects it" if named else ""
        yield RULE.finding(
            f"{port.device}:{port.port} of {host} is {port.state} ({port.physical_state}){by}",
            hosts=(host,),
            severity=Severity.FAIL if named else Severity.WARN,
            state=port.state,
        )


def _used(port: InfinibandPort, wanted: str | None) -> bool:
    """Whether NCCL_IB_HCA lets NCCL use the port: prefixes of `device[:port]`, `=` exact, `^` all but these."""
    if not wanted:
        return True
    exclude = wanted.startswith("^")
    rest = wanted.removeprefix("^")
    exact = rest.startswith("=")
    matched = False
    for word in rest.removeprefix("=").split(","):
        device, _, number = word.partition(":")
        same = port.device == device if exact else port.device.startswith(device)
        matched = matched or (bool(device) and same and number in {"", str(port.port)})
    return matched != exclude


def _gigabits(rate: str) -> float:
    try:
        return float(rate.split()[0])
    except (ValueError, IndexError):
        return 0.0
