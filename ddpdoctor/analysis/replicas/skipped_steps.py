"""Ranks that made fewer optimizer steps than their peers, or are at another batch of their data."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, step_of
from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.analysis.replicas.divergence import Divergence
from ddpdoctor.analysis.replicas.divergences.steps import SkipCause, StepSkipped
from ddpdoctor.analysis.replicas.step_callsites import lines_at
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.training_trace import OverflowSeen, Track


def skipped_steps(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> StepSkipped | None:
    """A rank has made fewer steps than its peers by the same forward, or is at another batch of its data."""
    step = step_of(seen)
    compared: tuple[tuple[SkipCause, dict[int, Hashable]], ...] = (
        (SkipCause.STEPS, {rank: one.step for rank, one in seen.items()}),
        (SkipCause.POSITION, {rank: one.position for rank, one in seen.items()}),
    )
    for cause, values in compared:
        if len(set(values.values())) == 1:
            continue
        if before is not None and cause is SkipCause.POSITION and len({one.position for one in before.values()}) > 1:
            continue
        decided, sides = vote(values), sides_of(values)
        first = max((one.following for one in before.values()), default=0) if before else 0
        if cause is SkipCause.STEPS and (left_out := _left_out(seen, before, tracks)):
            return left_out_by_scaler(left_out, first, sides, step)
        fewer = _without_a_step(seen, before) if decided.tied and cause is SkipCause.STEPS else ()
        return with_its_optimizer(StepSkipped(
            step=first if cause is SkipCause.STEPS else step, ranks=fewer or decided.minority,
            tied=decided.tied and not fewer, sides=sides,
            cause=cause, lines=lines_at(seen), seen=step, until=step - 1 if cause is SkipCause.STEPS else None,
        ), tracks)  # fmt: skip
    return None


def with_its_optimizer(found: StepSkipped, tracks: Mapping[int, Track]) -> StepSkipped:
    """The same with the one of several optimizers that some ranks stepped less often, where all stepped each other alike."""
    by_rank = {rank: track.by_optimizer for rank, track in tracks.items()}
    names = {tuple(one.name for one in made) for made in by_rank.values()}
    if found.cause is not SkipCause.STEPS or len(names) != 1:
        return found
    (kinds,) = names
    if len(kinds) < 2:
        return found
    counts = [{rank: made[at].steps for rank, made in by_rank.items()} for at in range(len(kinds))]
    unequal = [at for at, made in enumerate(counts) if len({*made.values()}) > 1]
    if len(unequal) != 1:
        return found
    (at,) = unequal
    decided = vote(counts[at])
    of_others = {count for place, made in enumerate(counts) for count in made.values() if place != at}
    odd = tuple(rank for rank, count in sorted(counts[at].items()) if count not in of_others)
    by_others = decided.tied and len(of_others) == 1 and len(odd) < len(counts[at])
    lines = {rank: made[at].first for rank, made in by_rank.items()}
    return replace(
        found, ranks=odd if by_others else decided.minority, tied=decided.tied and not by_others,
        sides=sides_of(counts[at]), lines={rank: line for rank, line in lines.items() if line is not None},
        optimizer=f"optimizer {at + 1} of {len(kinds)} ({kinds[at]})",
    )  # fmt: skip


def _without_a_step(seen: ByRank, before: ByRank | None) -> tuple[int, ...]:
    """The ranks that made fewer steps than forwards since the last audit, where all others made one with each forward.

    Empty where no rank did: one that accumulates steps less often, and so tells nothing.
    """
    fewer = []
    for rank, one in seen.items():
        if before is None or rank not in before:
            return ()
        steps, forwards = one.following - before[rank].following, one.forwards - before[rank].forwards
        if steps > forwards:
            return ()
        if steps < forwards:
            fewer.append(rank)
    return tuple(sorted(fewer)) if len(fewer) < len(seen) else ()


def _left_out(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> dict[int, OverflowSeen]:
    """The ranks, not all of them, whose GradScaler left out a step since the last one that was looked at."""
    found = {}
    for rank, track in tracks.items():
        first = before[rank].forwards if before else 0
        late = (one for one in track.overflows if first < one.forwards <= seen[rank].forwards)
        if (overflow := next(late, None)) is not None:
            found[rank] = overflow
    return found if len(found) < len(tracks) else {}


def left_out_by_scaler(left_out: dict[int, OverflowSeen], step: int, sides: tuple[Side, ...], seen: int) -> StepSkipped:
    """A step that the GradScaler of these ranks left out, as their gradients were not finite."""
    return StepSkipped(
        step=step, ranks=tuple(sorted(left_out)), sides=sides, cause=SkipCause.FOUND_INF, seen=seen,
        scale=next(iter(left_out.values())).scale or 0.0,
        lines={rank: one.line for rank, one in left_out.items() if one.line is not None},
    )  # fmt: skip


def skipped_in_all(tracks: Mapping[int, Track], found: list[Divergence]) -> Iterator[StepSkipped]:
    """Ranks that made as many forwards as the others and fewer steps, where no later step showed it."""
    if any(isinstance(one, StepSkipped) for one in found):
        return
    made = {rank: track.steps_made for rank, track in tracks.items() if track.steps_made is not None}
    forwards = {track.forwards_made for track in tracks.values()}
    if len(made) == len(tracks) and len(forwards) == 1 and len(set(made.values())) > 1:
        if (first := _first_skipped(tracks)) is not None:
            yield with_its_optimizer(first, tracks)
            return
        decided, sides = vote(made), sides_of(made)
        others = {
            rank: track.steps[0] for rank, track in tracks.items() if track.steps and rank not in decided.minority
        }
        yield with_its_optimizer(StepSkipped(
            step=min(made.values()), ranks=decided.minority, tied=decided.tied, sides=sides, cause=SkipCause.STEPS,
            seen=max(made.values()), lines=lines_at(others),
        ), tracks)  # fmt: skip


def _first_skipped(tracks: Mapping[int, Track]) -> StepSkipped | None:
    """The first forward after which some ranks made no step and the others did, where each step of each rank was seen.

    Ranks that skip other steps later may have made more of them in the end.
    """
    steps = {rank: {step.forwards: step for step in track.steps} for rank, track in tracks.items()}
    if any(len(steps[rank]) != track.steps_made or track.left_out for rank, track in tracks.items()):
        return None
    apart = {
        forwards for own in steps.values() for forwards in own if any(forwards not in other for other in steps.values())
    }
    if not apart:
        return None
    first = min(apart)
    skipped = tuple(rank for rank, own in sorted(steps.items()) if first not in own)
    decided = vote({rank: rank in skipped for rank in steps})
    if not decided.tied and decided.minority != skipped:
        return None
    made = {rank: sum(place <= first for place in own) for rank, own in steps.items()}
    later = {rank: [one for place, one in steps[rank].items() if place > first] for rank in skipped}
    return StepSkipped(
        step=min(made.values()), ranks=decided.minority, tied=decided.tied, sides=sides_of(made), cause=SkipCause.STEPS,
        lines=lines_at({rank: min(own, key=lambda one: one.forwards) for rank, own in later.items() if own}),
        seen=max(made.values()),
    )  # fmt: skip
