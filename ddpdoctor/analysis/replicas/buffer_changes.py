"""Buffers that were equal on all ranks at one audited forward and are not at the next: who has changed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpdoctor.evidence.training_trace import StepSeen

ByRank = Mapping[int, StepSeen]


def written_on_some_ranks(seen: ByRank, before: ByRank) -> dict[str, tuple[int, ...]]:
    """By name the ranks on which a buffer has changed since `before`, where it has kept its bytes on the others."""
    return {name: ranks for name, ranks in _changes(seen, before) if len(ranks) < len(seen)}


def updated_everywhere(seen: ByRank, before: ByRank) -> frozenset[str]:
    """The names of the buffers that each rank has changed since `before` in a way of its own, such as its statistics."""
    return frozenset(name for name, ranks in _changes(seen, before) if len(ranks) == len(seen))


def _changes(seen: ByRank, before: ByRank) -> Iterator[tuple[str, tuple[int, ...]]]:
    if set(before) != set(seen):
        return
    for name in next(iter(seen.values())).buffers:
        now = {rank: one.buffers.get(name) for rank, one in seen.items()}
        then = {rank: one.buffers.get(name) for rank, one in before.items()}
        if len({*then.values()}) == 1 and None not in then.values() and len({*now.values()}) > 1:
            yield name, tuple(sorted(rank for rank in seen if now[rank] != then[rank]))
