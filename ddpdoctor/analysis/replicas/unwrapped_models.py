"""Models beside the wrapped ones (an average of weights, a teacher) that were equal on all ranks and differ now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import step_of
from ddpdoctor.analysis.replicas.divergences.results import CopyUsed, UnwrappedDiffers
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track, UnwrappedSeen

Moment = tuple[bool, tuple[int, int, int]]
ByRank = dict[int, UnwrappedSeen]

# of a model that was never equal: an average follows the weights at nearly every step, an opponent is replaced now and then
LEAST_UPDATES = 5
NEARLY_EVERY = 0.9


def differing_copies(
    tracks: Mapping[int, Track], *, until: tuple[int, int, int] | None = None
) -> Iterator[UnwrappedDiffers]:
    """Each such model, at the first moment at which it is not the same on all ranks.

    After the step `until` the wrapped models differ, so that what follows them differs, too; None where they never do.

    It is meant to be equal where every rank has it and all had the same at the first moment at which all were looked at: one
    that each rank makes for itself differs from the beginning. Of those, one is a fault that some ranks update at nearly every
    step and others call and never update: an average that was copied before DistributedDataParallel made the weights equal.
    So is one that all update, that most ranks have alike at every moment, and the minority never had so. Where only ranks call
    it whose copy is updated, the others have one that nobody needs, and that is no fault.
    """
    for name in dict.fromkeys(one.name for track in tracks.values() for one in track.unwrapped):
        seen = [one for one in _aligned(tracks, name) if until is None or _is_before(one, until)]
        if len(tracks) < 2 or not seen:
            continue
        if _differs(seen[0]):
            if (found := _left_behind(name, seen, tracks)) is not None:
                yield found
            continue
        first = next((place for place, one in enumerate(seen) if _differs(one)), None)
        if first is not None and (found := _judged(name, seen[first - 1], seen[first], tracks)) is not None:
            yield found


def _left_behind(name: str, seen: Sequence[ByRank], tracks: Mapping[int, Track]) -> UnwrappedDiffers | None:
    """A model that was never equal, which some ranks update at nearly every audited step and others call and never update."""
    changes = {
        rank: [after for before, after in pairwise(seen) if after[rank].digest != before[rank].digest]
        for rank in tracks
    }
    least = max(LEAST_UPDATES, NEARLY_EVERY * (len(seen) - 1))
    moved = tuple(sorted(rank for rank, moments in changes.items() if len(moments) >= least))
    still = tuple(sorted(rank for rank, moments in changes.items() if not moments))
    if not moved or len(moved) + len(still) < len(tracks):
        return None
    if not still:
        return _begun_differently(name, seen, tracks)
    now = changes[moved[0]][LEAST_UPDATES - 1]
    called = _called(name, step_of(now), tracks)
    users = {rank: line for rank, line in called.items() if rank in still}
    if not users:
        return None
    ranks = still if len(still) < len(moved) else moved
    return _found(name, now, tracks, ranks, (moved, still), CopyUsed.STALE, users, was_equal=False)


def _begun_differently(name: str, seen: Sequence[ByRank], tracks: Mapping[int, Track]) -> UnwrappedDiffers | None:
    """One that all ranks update and call, and that the same few ranks never had as all others have it."""
    decided, *later = (vote({rank: one.digest for rank, one in now.items()}) for now in seen)
    called = _called(name, step_of(seen[0]), tracks)
    most = 2 * len(decided.majority) > len(tracks)
    if not most or len(called) < len(tracks) or any(one.sides != decided.sides for one in later):
        return None
    sides = (tuple(sorted(tracks)), ())
    return _found(name, seen[0], tracks, decided.minority, sides, CopyUsed.DIFFERENT, called, was_equal=False)


def _aligned(tracks: Mapping[int, Track], name: str) -> list[ByRank]:
    """What all ranks wrote down of the model at the same moments, in order; the end comes last."""
    own: dict[int, dict[Moment, UnwrappedSeen]] = {
        rank: {(one.at_end, one.key): one for one in track.unwrapped if one.name == name}
        for rank, track in tracks.items()
    }
    common = set.intersection(*(set(moments) for moments in own.values()))
    return [{rank: moments[moment] for rank, moments in own.items()} for moment in sorted(common)]


def _is_before(seen: ByRank, until: tuple[int, int, int]) -> bool:
    return all(one.key <= until and not one.at_end for one in seen.values())


def _differs(seen: ByRank) -> bool:
    return len({one.digest for one in seen.values()}) > 1


def _judged(name: str, before: ByRank, now: ByRank, tracks: Mapping[int, Track]) -> UnwrappedDiffers | None:
    step = step_of(now)
    sides = {rank: one.digest for rank, one in now.items()}
    decided = vote(sides)
    moved = tuple(sorted(rank for rank, one in now.items() if one.digest != before[rank].digest))
    still = tuple(sorted(set(now) - set(moved)))
    called = _called(name, step, tracks)
    if len({sides[rank] for rank in called}) > 1:
        used, users = CopyUsed.DIFFERENT, called
    elif any(rank in still for rank in called):
        used, users = CopyUsed.STALE, {rank: line for rank, line in called.items() if rank in still}
    elif called:
        return None
    else:
        used, users = CopyUsed.UNKNOWN, {}
    ranks = moved if decided.tied and still else decided.minority
    return _found(name, now, tracks, ranks, (moved, still), used, users, tied=decided.tied and not still)


def _found(
    name: str,
    now: ByRank,
    tracks: Mapping[int, Track],
    ranks: tuple[int, ...],
    sides: tuple[tuple[int, ...], tuple[int, ...]],
    used: CopyUsed,
    users: Mapping[int, Frame | None],
    *,
    tied: bool = False,
    was_equal: bool = True,
) -> UnwrappedDiffers:
    """The finding at the moment `now`; `sides` are the ranks that updated it and those that did not."""
    moved, still = sides
    writes = {rank: line for rank, track in tracks.items() if (line := track.unwrapped_writes.get(name)) is not None}
    used_at = {rank: line for rank, line in users.items() if line is not None}
    steps = {rank: line for rank, track in tracks.items() if (line := _step_line(track, now[rank].key)) is not None}
    return UnwrappedDiffers(
        step=step_of(now),
        ranks=ranks,
        tied=tied,
        was_equal=was_equal,
        name=name,
        kind=next(iter(now.values())).kind,
        moved=moved,
        still=still,
        used=used,
        used_on=tuple(sorted(users)),
        lines=writes or used_at or steps,
        writes=bool(writes),
        at_end=next(iter(now.values())).at_end,
    )


def _called(name: str, since: int, tracks: Mapping[int, Track]) -> dict[int, Frame | None]:
    """The ranks that called the model in step `since` or later, with the last line that did.

    Who asks for its `state_dict()` has not used it: where all ranks put a checkpoint together, one of them writes it.
    """
    return {
        rank: one.line
        for rank, track in tracks.items()
        for one in track.unwrapped_uses
        if one.name == name and one.how == "forward" and one.step >= since
    }


def _step_line(track: Track, key: tuple[int, int, int]) -> Frame | None:
    return next((step.line for step in track.steps if step.key == key), None)
