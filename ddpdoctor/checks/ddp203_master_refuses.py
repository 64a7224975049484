"""MASTER_ADDR answers, and nothing listens on MASTER_PORT there."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.links import MasterProbe
from ddpdoctor.grouping import grouped
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP203",
    name="master-refuses",
    summary="the host of MASTER_ADDR answers, but nothing listens on MASTER_PORT",
    severity=Severity.FAIL,
    shown_by="the master's host answers a ping, and nothing listens on the port: `ddpdoctor net` on all nodes",
    remedy="check that MASTER_ADDR is the node of rank 0, that rank 0 was started, and that no firewall rejects the port"
    " (`ddpdoctor port PORT` on that host)",
    explains=("DDP204", "DDP205", "DDP401"),
    errors=(
        ErrorPattern(
            regex=r"failed to connect to \[?(?P<addr>[^\s\]]+?)\]?:(?P<port>\d{1,18}) .{0,20}(?:errno: 111|Connection refused)",
            sentence="{addr} refuses connections to port {port}{on}: nothing listens there",
        ),
    ),
)


def check(master: PerRank[MasterProbe]) -> Iterator[Finding]:
    """One finding for each address that refused, with the ranks that it refused until they gave up."""
    refused = grouped(
        ((entry.value.addr, entry.value.port), entry.rank) for entry in master if entry.value.outcome == "refused"
    )
    for (addr, port), ranks in refused.items():
        seconds = max(entry.value.seconds for entry in master if entry.rank in ranks)
        yield RULE.finding(
            f"{addr} refuses connections to port {port} from {group_ranks(ranks)}: nothing listens there"
            + (", and rank 0 runs on another host" if 0 in ranks else ""),
            ranks=ranks,
            addr=addr,
            port=port,
            tried_seconds=round(seconds, 1),
        )
