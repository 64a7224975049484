"""Ranks on one machine are in different containers and cannot share memory.

NCCL falls back from shared memory to the network.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Host
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP123",
    name="namespaces-split-a-host",
    summary="ranks on one machine are in different containers and cannot share memory",
    severity=Severity.WARN,
    remedy="start all ranks of a machine in one container, or start the containers with `--ipc=host --network=host`",
    background=True,
)

MATTER = {"ipc": "IPC", "net": "network"}


def check(hosts: PerRank[Host]) -> Iterator[Finding]:
    """One finding per machine (by boot id) and namespace: its ranks do not all share it."""
    machines = grouped((entry.value.boot_id, entry) for entry in hosts if entry.value.boot_id is not None)
    shared = [entries for entries in machines.values() if len(entries) > 1]
    if not shared:
        raise SkipCheck("no two ranks share a machine")
    for entries in shared:
        for kind, noun in MATTER.items():
            groups = grouped(
                (entry.value.namespaces[kind], entry.rank) for entry in entries if kind in entry.value.namespaces
            )
            if len(groups) > 1:
                yield RULE.finding(
                    f"{group_ranks([entry.rank for entry in entries])} share a machine but are in different {noun} namespaces: "
                    f"{' and '.join(group_ranks(ranks) for ranks in groups.values())}",
                    ranks=[entry.rank for entry in entries],
                    hosts=[entry.host for entry in entries],
                    namespaces={name: list(ranks) for name, ranks in groups.items()},
                )
