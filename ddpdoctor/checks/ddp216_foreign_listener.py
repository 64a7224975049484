"""Something else than the job's rendezvous answers on MASTER_PORT."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.links import MasterProbe
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP216",
    name="foreign-listener",
    summary="another service listens on MASTER_PORT",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor port PORT` on the master names a program that is no part of the job",
    remedy="choose another MASTER_PORT, or stop the service: `ddpdoctor port PORT` on that host shows it",
    explains=("DDP205",),
)


def check(master: PerRank[MasterProbe]) -> Iterator[Finding]:
    """One finding for each such port, with the first line that the stranger said."""
    met: dict[tuple[str, int, str], list[int]] = {}
    for entry in master:
        probe = entry.value
        if probe.outcome in {"foreign", "silent"}:
            answer = f"answered {probe.answer!r}" if probe.answer else probe.detail
            met.setdefault((probe.addr, probe.port, answer), []).append(entry.rank)
    for (addr, port, answer), ranks in met.items():
        yield RULE.finding(
            f"{addr} port {port} is not a torch store (seen from {group_ranks(ranks)}): the listener {answer}",
            ranks=ranks,
            addr=addr,
            port=port,
        )
