"""MASTER_ADDR does not answer at all: a firewall drops the packets, the route is wrong, or the host is down."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.links import MasterProbe
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP204",
    name="master-filtered",
    summary="MASTER_ADDR and MASTER_PORT do not answer",
    severity=Severity.FAIL,
    remedy="check that the host is up and MASTER_ADDR right, that a route leads there (`ip route get ADDR`), and that no"
    " firewall drops the port",
    explains=("DDP205",),
)


def check(master: PerRank[MasterProbe]) -> Iterator[Finding]:
    """One finding for each address without an answer, and whether the network itself said that it is unreachable."""
    silent: dict[tuple[str, int, str], list[int]] = {}
    for entry in master:
        probe = entry.value
        if probe.outcome in {"filtered", "unreachable"}:
            how = f"is unreachable ({probe.detail})" if probe.outcome == "unreachable" else "does not answer"
            silent.setdefault((probe.addr, probe.port, how), []).append(entry.rank)
    for (addr, port, how), ranks in silent.items():
        seconds = max(entry.value.seconds for entry in master if entry.rank in ranks)
        yield RULE.finding(
            f"{addr} port {port} {how} when {group_ranks(ranks)} connect{'s' if len(ranks) == 1 else ''}",
            ranks=ranks,
            addr=addr,
            port=port,
            tried_seconds=round(seconds, 1),
        )
