"""Ranks of one job have different world sizes, or wait for another number of ranks than their launcher started."""

from collections.abc import Iterable, Iterator, Mapping

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence import PerRank, by_rank, noun_of
from ddpdoctor.evidence.launch import Joining, RankSet
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP207",
    name="world-size-disagrees",
    summary="ranks of one job have different world sizes, or another one than their launcher's",
    severity=Severity.FAIL,
    shown_by="ranks print different WORLD_SIZE values: `ddpdoctor env` under the same launcher",
    remedy="give every process the same WORLD_SIZE; under torchrun every node the same --nnodes and --nproc-per-node",
    explains=("DDP205", "DDP208", "DDP307", "DDP314"),
)


OF_THE_PROGRAM = (
    "take `world_size` out of `init_process_group`, and lines that set WORLD_SIZE out of the program: the launcher sets it; "
    "or start as many ranks"
)
WITHOUT_A_LAUNCHER = (
    "give every rank the same world size: in the `world_size=` of its `init_process_group`, or in its WORLD_SIZE"
)


def check(ranks: RankSet | None, joining: PerRank[Joining] | None, activities: Activities | None) -> Iterator[Finding]:
    """One finding with each world size and the ranks that have it; the culprits are those outside the majority.

    Of a job that waits in `init_process_group`: the ranks that do so with another world size than their launcher's, or, where no
    launcher has told one, than their peers'.
    """
    if ranks is None and (joining is None or activities is None):
        raise SkipCheck(f"no {noun_of(RankSet.__name__)} in the evidence")
    if ranks is not None:
        yield from _by_sizes({arrival.rank: arrival.world_size for arrival in ranks.arrivals})
    if joining is not None and activities is not None and activities.of(Activity.RENDEZVOUS):
        yield from _by_calls(by_rank(joining), activities)


def _by_calls(joining: Mapping[int, Joining], activities: Activities) -> Iterator[Finding]:
    """Ranks whose `init_process_group` has a world size that is not their launcher's, while ranks wait in it."""
    sizes = {
        rank: (known.world_size, known.started)
        for rank, known in joining.items()
        if known.world_size is not None and known.started is not None and known.world_size != known.started
    }
    if not sizes:
        world_sizes = {rank: known.world_size for rank, known in joining.items() if known.world_size is not None}
        if not any(known.started is not None for known in joining.values()):
            yield from _by_calls_alone(world_sizes, activities)
        return
    size, started = next(iter(sizes.values()))
    culprits = [rank for rank, both in sizes.items() if both == (size, started)]
    yield RULE.finding(
        f"init_process_group of {group_ranks(culprits)} has world size {size}; the launcher started {started} ranks",
        ranks=culprits,
        where=_waiting_at(culprits, activities),
        remedy=OF_THE_PROGRAM,
        world_size=size,
        started=started,
    )


def _by_calls_alone(sizes: Mapping[int, int], activities: Activities) -> Iterator[Finding]:
    """Ranks that no launcher started, whose `init_process_group` have different world sizes."""
    sides = vote(sizes)
    if len(sides.sides) > 1:
        (most, size), *others = ((group_ranks(side), sizes[side[0]]) for side in sides.sides)
        rest = "".join(f", for {other} on {held}" for held, other in others)
        yield RULE.finding(
            f"init_process_group waits for {size} ranks on {most}{rest}{tie_note(tied=sides.tied)}",
            ranks=sides.minority,
            where=_waiting_at((*sides.minority, *sides.majority), activities),
            remedy=WITHOUT_A_LAUNCHER,
            sizes=_held(sides, sizes),
        )


def _by_sizes(sizes: Mapping[int, int]) -> Iterator[Finding]:
    sides = vote(sizes)
    if len(sides.sides) > 1:
        sizes_text = ", ".join(f"{sizes[side[0]]} on {group_ranks(side)}" for side in sides.sides)
        yield RULE.finding(
            f"WORLD_SIZE is {sizes_text}{tie_note(tied=sides.tied)}", ranks=sides.minority, sizes=_held(sides, sizes)
        )


def _held(sides: Vote, sizes: Mapping[int, int]) -> dict[str, list[int]]:
    return {str(sizes[side[0]]): list(side) for side in sides.sides}


def _waiting_at(ranks: Iterable[int], activities: Activities) -> list[Where]:
    places = {activity.rank: activity.place for activity in activities.each}
    return [
        Where.at(place, rank=rank, note="waiting for the other ranks")
        for rank in ranks
        if (place := places.get(rank)) is not None
    ]
