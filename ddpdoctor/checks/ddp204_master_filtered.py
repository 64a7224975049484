"""MASTER_ADDR does not answer at all: a firewall drops the packets, the route is wrong, or the host is down."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.links import MasterProbe
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP204",
    name="master-filtered",
    summary="MASTER_ADDR does not answer on MASTER_PORT",
    severity=Severity.FAIL,
    shown_by="connections to the master neither succeed nor are refused: `ddpdoctor net` on all nodes",
    remedy="check that the host is up and MASTER_ADDR is correct, that there is a route to it (`ip route get ADDR`), "
    "and that no firewall drops the port",
    explains=("DDP205", "DDP226", "DDP401"),
    errors=(
        ErrorPattern(
            regex=r"[Tt]imed out after (?P<after>\d+ ?m?s?) .{0,20}(?:while )?trying to connect to "
            r"\((?P<addr>127\.[\d.]{5,11}|localhost|::1), (?P<port>[^,)\s]{1,18})\)",
            sentence="{addr} port {port} did not answer within {after}{on}; this address is the host itself",
            remedy="on one host, rank 0 was not started, ended early, or listens on another port: read its log. On several "
            "hosts, set MASTER_ADDR to the name or the address of the first one",
        ),
        ErrorPattern(
            regex=r"client socket has timed out after (?P<after>\d+ ?m?s) while trying to connect to \((?P<addr>[^,)]{1,255}), "
            r"(?P<port>[^,)\s]{1,18})\)",
            sentence="{addr} port {port} did not answer within {after}{on}",
        ),
        ErrorPattern(
            regex=r"client socket has timed out after (?P<after>\d+ ?m?s) while trying to connect to "
            r"(?P<addr>[\w.-]{1,255}|\[[\w:.%]{1,255}\]):(?P<port>\d{1,18})\b",
            sentence="{addr} port {port} did not answer within {after}{on}",
        ),
        ErrorPattern(
            regex=r"[Tt]imed out after (?P<after>\d+ ?m?s?) .{0,20}(?:while )?trying to connect to \((?P<addr>[^,)]{1,255}), "
            r"(?P<port>[^,)\s]{1,18})\)",
            sentence="{addr} port {port} did not answer within {after}{on}",
        ),
        ErrorPattern(
            regex=r"connect\(\) timed out\. Original timeout was (?P<after>\d+ ms)",
            sentence="the address of the rendezvous did not answer within {after}{on}",
        ),
        ErrorPattern(
            regex=r"^RuntimeError: connect\(\) timed out\.?$",
            sentence="the address of the rendezvous did not answer{on}",
        ),
        ErrorPattern(
            regex=r"failed to connect to \[?(?P<addr>[^\s\]]+?)\]?:(?P<port>\d{1,18}) .{0,20}errno: 1(?:10|13) - (?P<why>[\w ]+)",
            sentence="{addr} port {port} does not answer{on}: {why}",
        ),
        ErrorPattern(
            regex=r"server socket on \[?(?P<addr>[^\s\]]{1,255})\]?:(?P<port>\d{1,18}) has timed out, will retry",
            sentence="{addr} port {port} does not answer{on}: each connection to it times out",
        ),
    ),
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
