"""MASTER_ADDR is loopback in a job of several nodes: each node connects to itself."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import is_loopback
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.network import Master
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP222",
    name="master-addr-is-loopback",
    summary="MASTER_ADDR is loopback, so each node connects to itself",
    severity=Severity.FAIL,
    shown_by="MASTER_ADDR is localhost or 127.x in a job of several nodes",
    remedy="set MASTER_ADDR to the name or address of rank 0's node, as the other nodes know it",
    explains=("DDP203", "DDP205"),
)


def check(master: PerRank[Master], launch: PerRank[Launch]) -> Iterator[Finding]:
    """One finding where the job has ranks on other nodes and MASTER_ADDR resolves to loopback only."""
    launches = by_rank(launch)
    several = [entry for entry in master if entry.rank in launches and _several_nodes(launches[entry.rank])]
    if not several:
        raise SkipCheck("the job runs on one node")
    ranks = [entry.rank for entry in several if entry.value.addresses and all(map(is_loopback, entry.value.addresses))]
    if ranks:
        addr = next(entry.value.addr for entry in several if entry.rank in ranks)
        yield RULE.finding(
            f"MASTER_ADDR={addr} is loopback on {group_ranks(ranks)}, but the job has several nodes",
            ranks=ranks,
            addr=addr,
        )


def _several_nodes(launch: Launch) -> bool:
    return launch.local_world_size is not None and launch.local_world_size < launch.world_size
