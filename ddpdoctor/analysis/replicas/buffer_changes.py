"""Buffers that were equal on all ranks at one audited forward and are not at the next: who has changed them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.evidence.audited_steps import StepSeen


def written_on_some_ranks(seen: ByRank, before: ByRank) -> dict[str, tuple[int, ...]]:
    """By name the ranks on which a buffer has changed since `before`, where it has kept its bytes on the others."""
    return {name: ranks for name, ranks in _changes(seen, before) if len(ranks) < len(seen)}


def writes_since(name: str, seen: ByRank, before: ByRank) -> int | None:
    """How often operations have written a buffer on each rank since `before`; None where ranks differ, or it is not known."""
    made = {_writes_since(name, one, before[rank]) for rank, one in seen.items()}
    return made.pop() if len(made) == 1 else None


def is_kept_by_a_rank(name: str, seen: ByRank, before: ByRank) -> bool:
    """Whether no operation has written a buffer since `before` on at least one rank, and the writes are known of all."""
    made = [_writes_since(name, one, before[rank]) for rank, one in seen.items()]
    return None not in made and 0 in made


def _writes_since(name: str, now: StepSeen, before: StepSeen) -> int | None:
    later, then = _writes(name, now), _writes(name, before)
    return later - then if later is not None and then is not None else None


def _writes(name: str, one: StepSeen) -> int | None:
    return (one.integrity.buffers if one.integrity is not None else one.buffer_writes).get(name)


def _changes(seen: ByRank, before: ByRank) -> Iterator[tuple[str, tuple[int, ...]]]:
    if set(before) != set(seen):
        return
    for name in next(iter(seen.values())).buffers:
        now = {rank: one.buffers.get(name) for rank, one in seen.items()}
        then = {rank: one.buffers.get(name) for rank, one in before.items()}
        if len({*then.values()}) == 1 and None not in then.values() and len({*now.values()}) > 1:
            yield name, tuple(sorted(rank for rank in seen if now[rank] != then[rank]))
