"""MASTER_ADDR is a name that some rank cannot resolve, or that ranks resolve to different machines."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.network import Master
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP201",
    name="master-addr-unresolvable",
    summary="MASTER_ADDR has no address",
    severity=Severity.FAIL,
    remedy="correct MASTER_ADDR (`getent hosts NAME` must answer on every node), or give the address itself",
    explains=("DDP203", "DDP204", "DDP205"),
)


def check(master: PerRank[Master]) -> Iterator[Finding]:
    """One finding for each name that does not resolve, with the ranks that cannot; one where ranks got other answers."""
    unresolved: dict[tuple[str, str], list[int]] = {}
    for entry in master:
        if not entry.value.addresses:
            unresolved.setdefault((entry.value.addr, entry.value.error or "no address"), []).append(entry.rank)
    for (name, error), ranks in unresolved.items():
        culprits = ranks if master.launched else []
        who = f"{group_ranks(ranks)} cannot resolve" if master.launched else "this host cannot resolve"
        yield RULE.finding(f"{who} MASTER_ADDR={name}: {error}", ranks=culprits, addr=name, error=error)
    yield from _answers_differ(master)


def _answers_differ(master: PerRank[Master]) -> Iterator[Finding]:
    answers: dict[str, dict[tuple[str, ...], list[int]]] = {}
    for entry in master:
        outside = tuple(sorted(each for each in entry.value.addresses if not _loopback(each)))
        if outside and not entry.value.local:
            answers.setdefault(entry.value.addr, {}).setdefault(outside, []).append(entry.rank)
    for name, by_answer in answers.items():
        groups = sorted(by_answer.items(), key=lambda item: -len(item[1]))
        if len(groups) > 1 and not set.intersection(*(set(addresses) for addresses, _ in groups)):
            said = "; ".join(f"{', '.join(addresses)} on {group_ranks(ranks)}" for addresses, ranks in groups)
            odd = groups[1:] if len(groups[0][1]) > len(groups[1][1]) else groups
            yield RULE.finding(
                f"MASTER_ADDR={name} resolves differently: {said}",
                ranks=[rank for _, ranks in odd for rank in ranks],
                remedy="make every node resolve the name to the same address (/etc/hosts or DNS), or give the address itself",
                addr=name,
            )


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
