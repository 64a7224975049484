"""Ranks of one job have different world sizes."""

from collections.abc import Iterator

from ddpdoctor.evidence.launch import RankSet
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP207",
    name="world-size-disagrees",
    summary="ranks of one job have different world sizes",
    severity=Severity.FAIL,
    shown_by="ranks print different WORLD_SIZE values: `ddpdoctor env` under the same launcher",
    remedy="give every process the same WORLD_SIZE; under torchrun every node the same --nnodes and --nproc-per-node",
    explains=("DDP205", "DDP208"),
)


def check(ranks: RankSet) -> Iterator[Finding]:
    """One finding with each world size and the ranks that have it; the culprits are those outside the majority."""
    by_size: dict[int, list[int]] = {}
    for arrival in ranks.arrivals:
        by_size.setdefault(arrival.world_size, []).append(arrival.rank)
    if len(by_size) > 1:
        groups = sorted(by_size.items(), key=lambda item: -len(item[1]))
        majority = len(groups[0][1]) > len(groups[1][1])
        minority = groups[1:] if majority else groups
        said = ", ".join(f"{size} on {group_ranks(held)}" for size, held in groups)
        yield RULE.finding(
            f"WORLD_SIZE is {said}" + tie_note(tied=not majority),
            ranks=[rank for _, held in minority for rank in held],
            sizes={str(size): sorted(held) for size, held in groups},
        )
