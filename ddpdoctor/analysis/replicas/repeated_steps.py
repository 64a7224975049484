"""What it says of a step without one result that its ranks made it again: who came to another result, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.replicas.aligned_steps import ByRank, devices_of
from ddpdoctor.analysis.replicas.divergences.results import Corrupted, Repeated, StepNotReproducible
from ddpdoctor.analysis.replicas.flipped_bits import bits_of, in_one_element, width_of
from ddpdoctor.evidence.audited_steps import Recomputed
from ddpdoctor.evidence.training_trace import Track


def with_repetitions(found: StepNotReproducible, seen: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible:
    """`found` with what it says about the ranks that all of them have made the step again, where they have."""
    made = {
        rank: one.recomputed for rank, one in seen.items() if one.recomputed is not None and not one.recomputed.failed
    }
    if len(made) < len(seen) or len({tuple(_those(one.given, found.tensors)) for one in made.values()}) > 1:
        return found  # weights that changed between forward and step are no fault of the step
    own = {rank: _those(tracks[rank].tables[one.after].digests, found.tensors) for rank, one in seen.items()}
    first = {rank: _those(one.first, found.tensors) for rank, one in made.items()}
    never = tuple(rank for rank in seen if first[rank] != _those(made[rank].second, found.tensors))
    once = tuple(rank for rank in seen if rank not in never and first[rank] != own[rank])
    steady = {rank: own[rank] for rank in seen if rank not in {*never, *once}}
    if never and once:
        return found  # one of them may have come to the same twice by chance
    if never:
        operation = next((made[rank].operation for rank in never if made[rank].operation), "")
        at = Corrupted.STEP if steady else Corrupted.NONDETERMINISTIC
        return _blamed(found, never, tracks, at=at, repeated=Repeated.NEVER, operation=operation)
    agree = len({*map(tuple, steady.values()), *(tuple(first[rank]) for rank in once)}) == 1
    if once and steady and agree:
        bits = _bits_of_repetition(found, seen, tracks, made, once)
        return replace(_blamed(found, once, tracks, at=Corrupted.STEP, repeated=Repeated.ONCE), bits=bits)
    return found if once else replace(found, repeated=Repeated.AGAIN)


def _blamed(
    found: StepNotReproducible,
    ranks: tuple[int, ...],
    tracks: Mapping[int, Track],
    *,
    at: Corrupted,
    repeated: Repeated,
    operation: str = "",
) -> StepNotReproducible:
    devices = devices_of(tracks, ranks) if at is Corrupted.STEP else {}
    return replace(
        found, ranks=tuple(sorted(ranks)), tied=False, at=at, repeated=repeated, operation=operation, devices=devices
    )


def _bits_of_repetition(
    found: StepNotReproducible,
    seen: ByRank,
    tracks: Mapping[int, Track],
    made: Mapping[int, Recomputed],
    ranks: Sequence[int],
) -> tuple[int, ...]:
    """The bits of one element in which the first of `ranks` came to something else than when it made the step again."""
    integrity = seen[ranks[0]].integrity
    if len(found.tensors) != 1 or integrity is None:
        return found.bits
    name = found.tensors[0]
    mask = integrity.after.get(name, 0) ^ made[ranks[0]].parity.get(name, 0)
    width = width_of(tracks, name)
    return bits_of(mask, width) if mask and in_one_element(mask, width) else ()


def _those(digests: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [digests.get(name, "") for name in names]
