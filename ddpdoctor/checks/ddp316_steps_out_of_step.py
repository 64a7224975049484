"""A rank's Nth collective belongs to another step than its peers': every gradient since is averaged with a stranger's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.iterations import Iterations
from ddpdoctor.analysis.timeline import Made, Timeline
from ddpdoctor.analysis.wording import witnesses
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP316",
    name="steps-out-of-step",
    summary="a rank's collectives belong to other steps than those that its peers pair with them",
    severity=Severity.FAIL,
    remedy="skip a batch on every rank or on none (all_reduce the decision), never swallow an exception between forward and "
    "step, and accumulate over equally many batches everywhere; what was trained since is not to be trusted",
    explains=("DDP301", "DDP306", "DDP307", "DDP314", "DDP318", "DDP408"),
)


def check(iterations: Iterations, timeline: Timeline | None) -> Iterator[Finding]:
    """The first iteration that did not begin after the same number of collectives on every rank."""
    parted = iterations.out_of_step
    if parted is None:
        return
    sides, seq = parted.sides, parted.seq
    by_count: dict[int, list[int]] = {}
    for rank in (*sides.odd, *sides.usual):
        by_count.setdefault(seq[rank], []).append(rank)
    said = " and ".join(f"{group_ranks(ranks)} after {count}" for count, ranks in by_count.items())
    apart: Mapping[int, Made] = {}
    if timeline is not None:
        waits = {rank: made for rank in seq if (made := timeline.waiting(rank)) is not None}
        apart = waits or _came_apart(timeline, sides.odd, sides.usual, parted.equal)
    yield RULE.finding(
        f"iteration {parted.iteration} did not begin after equally many collectives: {said}",
        ranks=sides.odd,
        where=witnesses(apart, (*sides.odd, *sides.usual)),
        iteration=parted.iteration,
        collectives={str(rank): count for rank, count in sorted(seq.items())},
    )


def _came_apart(timeline: Timeline, odd: Sequence[int], usual: Sequence[int], equal: int) -> Mapping[int, Made]:
    """The first calls after number `equal` that an odd rank made from another line than its peers; none where none did."""
    for group in timeline.groups:
        if group.name:
            continue  # iterations are counted against the default group
        for seq in range(equal + 1, group.top + 1):
            made = {rank: call for rank in (*odd, *usual) if (call := timeline.made(group, rank, seq)) is not None}
            if {made[rank].stack for rank in odd if rank in made} - {
                made[rank].stack for rank in usual if rank in made
            }:
                return made
    return {}
