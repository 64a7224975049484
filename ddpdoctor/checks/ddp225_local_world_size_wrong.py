"""LOCAL_WORLD_SIZE is not the number of ranks on the node.

Nodes may hold different numbers of ranks: that WORLD_SIZE is no multiple of LOCAL_WORLD_SIZE proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.launch import Launch, RankSet
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP225",
    name="local-world-size-wrong",
    summary="LOCAL_WORLD_SIZE is not the number of ranks on the node",
    severity=Severity.WARN,
    shown_by="LOCAL_WORLD_SIZE differs from the number of processes on the node",
    remedy="set LOCAL_WORLD_SIZE on each node to the number of its own ranks, or let torchrun set it",
)
# whose LOCAL_WORLD_SIZE can be set by hand; Open MPI counts, Slurm states an upper bound
WRITTEN = {"torch", "torchrun"}


def check(launch: PerRank[Launch], ranks: RankSet | None) -> Iterator[Finding]:
    """One finding per node whose ranks do not fill sets of LOCAL_WORLD_SIZE, or whose set is larger than the world."""
    written = [entry for entry in launch if entry.value.launcher in WRITTEN and entry.value.local_world_size]
    complete = ranks is not None and len({arrival.rank for arrival in ranks.arrivals}) == ranks.world_size
    nodes = grouped(
        ((entry.host, entry.value.node_rank, entry.value.local_world_size or 0), entry) for entry in written
    )
    for (host, _, local), entries in nodes.items():
        held = [entry.rank for entry in entries]
        world = entries[0].value.world_size
        if local > world:
            message = f"LOCAL_WORLD_SIZE={local} on {host} is more than WORLD_SIZE={world}"
        elif complete and len(held) % local:
            message = (
                f"LOCAL_WORLD_SIZE={local} on {host}, which runs {len(held)} of the {world} ranks: {group_ranks(held)}"
            )
        else:
            continue
        yield RULE.finding(message, ranks=held, hosts=(host,), local_world_size=local, held=len(held))
