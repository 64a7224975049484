"""Two processes claim one rank."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP206",
    name="duplicate-rank",
    summary="two processes claim one rank",
    severity=Severity.FAIL,
    remedy="give each process its own RANK; under torchrun each node its own --node-rank, and do not set RANK yourself",
    explains=("DDP205",),
)


def check(launch: PerRank[Launch]) -> Iterator[Finding]:
    """One finding for each rank that several processes claim, with the hosts on which they run."""
    claims: dict[int, list[str]] = {}
    for entry in launch:
        claims.setdefault(entry.value.rank, []).append(entry.host)
    for rank, hosts in claims.items():
        if len(hosts) > 1:
            where = " and ".join(dict.fromkeys(hosts))
            yield RULE.finding(
                f"{len(hosts)} processes claim rank {rank}, on {where}",
                ranks=(rank,),
                hosts=hosts,
                processes=len(hosts),
            )
