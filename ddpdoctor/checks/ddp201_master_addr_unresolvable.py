"""MASTER_ADDR is a name that some rank cannot resolve, or that ranks resolve to different machines."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import is_loopback
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.network import Master
from ddpdoctor.grouping import grouped
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP201",
    name="master-addr-unresolvable",
    summary="MASTER_ADDR cannot be resolved, or resolves differently on some ranks",
    severity=Severity.FAIL,
    shown_by="`getent hosts $MASTER_ADDR` fails, or answers differently, on some node",
    remedy="correct MASTER_ADDR (`getent hosts NAME` must answer on every node), or set it to an IP address",
    explains=("DDP203", "DDP204", "DDP205", "DDP229", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"network addresses of \((?P<host>[^,)]{1,255}), (?P<port>[^,)\s]{1,18})\) cannot be retrieved "
            r"\(gai error: -[235]\b",
            sentence="the name {host} has no address{on}",
        ),
        ErrorPattern(
            regex=r"(?:gaierror|host not found).{0,80}(?:Name or service not known|Temporary failure in name resolution|No "
            r"address associated)[: ]*(?P<host>[\w.-]*)",
            sentence="a host name has no address{on}: {words}",
            frames=r"torch/distributed/",  # and not that of a server from which weights or data are downloaded
        ),
        ErrorPattern(  # by its type, where the log has kept none of torch's frames
            regex=r"Dist(?:Network|Store)Error: .{0,400}(?:gaierror|host not found)",
            sentence="a host name has no address{on}: {words}",
        ),
    ),
)


def check(master: PerRank[Master]) -> Iterator[Finding]:
    """One finding for each name that does not resolve, with the ranks that cannot; one where ranks got other answers."""
    unresolved = grouped(
        ((entry.value.addr, entry.value.error or "no address"), entry.rank)
        for entry in master
        if not entry.value.addresses
    )
    for (name, error), ranks in unresolved.items():
        culprits = ranks if master.launched else []
        who = f"{group_ranks(ranks)} cannot resolve" if master.launched else "this host cannot resolve"
        yield RULE.finding(f"{who} MASTER_ADDR={name}: {error}", ranks=culprits, addr=name, error=error)
    yield from _answers_differ(master)


def _answers_differ(master: PerRank[Master]) -> Iterator[Finding]:
    answers: dict[str, dict[tuple[str, ...], list[int]]] = {}
    for entry in master:
        outside = tuple(sorted(each for each in entry.value.addresses if not is_loopback(each)))
        if outside and not entry.value.local:
            answers.setdefault(entry.value.addr, {}).setdefault(outside, []).append(entry.rank)
    for name, by_answer in answers.items():
        groups = sorted(by_answer.items(), key=lambda item: -len(item[1]))
        if len(groups) > 1 and not set.intersection(*(set(addresses) for addresses, _ in groups)):
            addresses_text = "; ".join(f"{', '.join(addresses)} on {group_ranks(ranks)}" for addresses, ranks in groups)
            minority = groups[1:] if len(groups[0][1]) > len(groups[1][1]) else groups
            yield RULE.finding(
                f"MASTER_ADDR={name} resolves differently: {addresses_text}",
                ranks=[rank for _, ranks in minority for rank in ranks],
                remedy="make every node resolve the name to the same address (/etc/hosts or DNS), or set MASTER_ADDR to "
                "an IP address",
                addr=name,
            )
