"""Tracks of all ranks to the ways in which they part: aligned first, then phase by phase in the order of a step."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from typing_extensions import assert_never

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.analysis.replicas.data_sharding import data_divergences
from ddpdoctor.analysis.replicas.divergence import (
    CollectiveDiffers,
    Divergence,
    Divergences,
    GradientsChanged,
    GradientsNotReduced,
    LocalNotFinite,
    LossComputedDifferently,
    ModesDiffer,
    NonFiniteCause,
    ParameterOutside,
    PartialMetric,
    ReadEarly,
    ReductionScaled,
    SameDraws,
    SameInputs,
    SameOrder,
    SameSamples,
    SamplesOverlap,
    SettingsAt,
    SettingsDiffer,
    SkipCause,
    StepNotReproducible,
    StepSkipped,
    UnevenBatches,
    UnwrappedDiffers,
    WeightsWritten,
    WrittenAt,
)
from ddpdoctor.analysis.replicas.gradient_sync import STEPPED, gradient_divergences, reduction_differs
from ddpdoctor.analysis.replicas.hardware_errors import (
    changed_by_itself,
    different_forwards,
    given_by_itself,
    given_differently,
    who_wrote_given,
)
from ddpdoctor.analysis.replicas.local_steps import averages_weights, comparable
from ddpdoctor.analysis.replicas.replica_groups import of_each_group
from ddpdoctor.analysis.replicas.rng_sync import same_draws
from ddpdoctor.analysis.replicas.sharded_optimizers import Sharding, differs_after, sharding
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote
from ddpdoctor.analysis.replicas.unwrapped_models import differing_copies
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.training_trace import OverflowSeen, StepSeen, Track
from ddpdoctor.model import SkipCheck, group_ranks

ByRank = dict[int, StepSeen]
StepKey = tuple[int, int, int]


def derive(tracks: PerRank[Track]) -> Divergences:
    """Every way in which replicas part, at its first step; the scan ends at the step after which the weights differ."""
    by_rank = {entry.rank: entry.value for entry in tracks}
    each = of_each_group(by_rank, _of_replicas)
    return Divergences(
        steps=max(one.steps for one in each),
        world_size=len(by_rank),
        found=tuple(_first_of_each(found for one in each for found in one.found)),
    )


def _of_replicas(by_rank: Mapping[int, Track]) -> Divergences:
    methods = {track.method for track in by_rank.values()}
    if len(methods) > 1:
        raise SkipCheck("some ranks have the package xxhash and some do not: install it on all ranks or on none")
    if idle := _without_an_optimizer(by_rank):
        raise SkipCheck(
            f"no model is wrapped, and {group_ranks(idle)} never stepped an optimizer: the others train for them"
        )
    steps = aligned(by_rank)
    averaged = averages_weights(by_rank, steps)
    compared = comparable(by_rank, steps) if averaged else _with_left_out(by_rank)
    found: list[Divergence] = []
    last: StepKey | None = None  # up to which the ranks have the same weights; None for all steps
    for place, seen in enumerate(compared):
        found += _at_step(seen, compared[place - 1] if place else None, by_rank, gradients=not averaged)
        if not averaged and differs_after(seen, by_rank, sharding(seen, by_rank)):
            last = _last_equal(seen, compared[place - 1] if place else None)
            break
    found += _at_the_end(by_rank, found)
    found += gradient_scale(steps) if not averaged else ()
    found += data_divergences(by_rank, steps)
    found += same_draws(steps)
    found += _read_early(by_rank)
    found += different_forwards(by_rank)
    found += differing_copies(by_rank, until=last) if not averaged else ()
    made = [track.steps_made for track in by_rank.values() if track.steps_made is not None]
    return Divergences(
        steps=max([*made, *(seen[rank].step + 1 for seen in steps for rank in seen)], default=0),
        world_size=len(by_rank),
        found=tuple(found),
    )


def _without_an_optimizer(tracks: Mapping[int, Track]) -> tuple[int, ...]:
    """The ranks that made no step and no backward, where others did and nothing is wrapped: actors beside a learner."""
    if any(track.wrap_lines or track.start for track in tracks.values()):
        return ()
    idle = tuple(
        rank
        for rank, track in sorted(tracks.items())
        if track.steps_made == 0 and not any("backward" in one.lines for one in track.steps)
    )
    return idle if len(idle) < len(tracks) else ()


def _first_of_each(found: Iterable[Divergence]) -> Iterator[Divergence]:
    """What goes on is reported once: its first step, and the line that wrote a setting where the next step has it."""
    each = list(found)
    known: set[Hashable] = set()
    for place, one in enumerate(each):
        key = type(one), _what(one)
        if key in known:
            continue
        known.add(key)
        shown = one
        if isinstance(one, SettingsDiffer) and one.shown is SettingsAt.THE_STEP:
            shown = _with_its_line(one, islice(each, place + 1, None))
            known.add((type(one), _what(shown)))
        yield shown


def _with_its_line(one: SettingsDiffer, later: Iterable[Divergence]) -> SettingsDiffer:
    """The difference with the line that wrote the settings, where the same ones of the same ranks have it at the next step."""
    again = (
        other
        for other in later
        if isinstance(other, SettingsDiffer) and (other.names, other.ranks) == (one.names, one.ranks)
    )
    following = next(again, one)
    return replace(one, lines=following.lines, shown=following.shown)


def _what(one: Divergence) -> Hashable:
    """What must be equal in two divergences of one variant for the later one to be the same thing going on."""
    match one:
        case StepSkipped() | GradientsNotReduced() | LocalNotFinite():
            return one.cause
        case WeightsWritten():
            return one.shown is WrittenAt.A_LOAD
        case SettingsDiffer():
            return one.shown is SettingsAt.GIVEN, one.names[0]
        case SameDraws():
            return one.drawn_for, one.generator
        case ReadEarly():
            return one.used_by, one.op
        case SamplesOverlap():
            return one.without_them
        case SameOrder():
            return one.sampler
        case ReductionScaled():
            return one.by_hook
        case StepNotReproducible():
            return one.at
        case UnwrappedDiffers():
            return one.name
        case CollectiveDiffers() | LossComputedDifferently() | ModesDiffer():
            return None
        case ParameterOutside() | GradientsChanged() | SameSamples() | SameInputs() | UnevenBatches() | PartialMetric():
            return None
        case _:
            assert_never(one)


def aligned(tracks: Mapping[int, Track]) -> list[ByRank]:
    """The steps that all ranks audited, each rank's beside the others'; a rank that skips one stays in line."""
    seen = {rank: {step.key: step for step in track.steps} for rank, track in tracks.items()}
    common = set.intersection(*(set(steps) for steps in seen.values())) if seen else set()
    return [{rank: steps[key] for rank, steps in seen.items()} for key in sorted(common)]


def _with_left_out(tracks: Mapping[int, Track]) -> list[ByRank]:
    """`aligned`, and the audited steps that a GradScaler left out on some ranks or on all."""
    return aligned({rank: replace(track, steps=track.steps + track.left_out) for rank, track in tracks.items()})


def _last_equal(seen: ByRank, before: ByRank | None) -> StepKey:
    """The last step until whose end no rank's weights had been other than its peers', where they differ after `seen`."""
    if len({one.weights for one in seen.values()}) == 1:
        return min(one.key for one in seen.values())
    return min(one.key for one in before.values()) if before else (-1, 0, 0)


def _voted(values: Mapping[int, Hashable]) -> tuple[Vote, tuple[Side, ...]]:
    """The vote, and its sides with their values."""
    return vote(values), sides_of(values)


def _at_step(
    seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track], *, gradients: bool
) -> Iterator[Divergence]:
    step = max(one.step for one in seen.values())
    skipped = _skipped(seen, before, tracks)
    if skipped is not None:
        yield skipped
        return
    if any(one.left_out for one in seen.values()):
        yield from _at_left_out(seen, before, tracks, step)
        return
    given = _given_written(seen, tracks) if gradients else None
    by_itself = changed_by_itself(seen, before, tracks) if gradients and given is None else None
    written = given or by_itself or _written(seen, before, tracks)
    if written is not None:
        yield written
    non_finite = _non_finite(seen, tracks)
    if non_finite is not None and not _follows_from(non_finite, written, seen):
        yield non_finite
    shared = sharding(seen, tracks)
    if non_finite is None and gradients:
        yield from gradient_divergences(seen, step, apart=shared.names if shared is not None else frozenset())
    yield from _settings_differ(seen, step, shared)
    yield from _modes_differ(seen, before, step)


def _modes_differ(seen: ByRank, before: ByRank | None, step: int) -> Iterator[ModesDiffer]:
    """Modules in evaluation mode on some ranks alone; where all ranks were alike before, those that changed are at fault."""
    modes = {rank: tuple(sorted(one.modes.items())) for rank, one in seen.items()}
    decided = vote(modes)
    if len(decided.sides) == 1:
        return
    were = {tuple(sorted(one.modes.items())) for one in before.values()} if before is not None else set()
    changed = tuple(rank for rank in sorted(modes) if modes[rank] not in were) if len(were) == 1 else ()
    told = 0 < len(changed) < len(modes)
    ranks = changed if told else decided.minority
    alone = not any(one.modes for rank, one in seen.items() if rank not in ranks)
    calls = {rank: line for rank in ranks if alone and (line := seen[rank].lines.get("eval")) is not None}
    yield ModesDiffer(
        step=step,
        ranks=ranks,
        tied=decided.tied and not told,
        sides=sides_of({rank: one.evaluating or "none" for rank, one in seen.items()}),
        lines=calls or lines_at(seen, "forward"),
        set_here=bool(calls),
    )


def _at_left_out(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track], step: int) -> Iterator[Divergence]:
    """What differs at a step that a GradScaler left out on all ranks or on some, where gradients are not finite."""
    written = changed_by_itself(seen, before, tracks) or _written(seen, before, tracks)
    if written is not None:
        yield written
        return
    received = reduction_differs(seen, step)
    if received is not None:
        yield received
        return
    overflows = {
        rank: one for rank in seen for one in tracks[rank].overflows if one.forwards == seen[rank].forwards
    }  # fmt: skip
    if 0 < len(overflows) < len(seen):
        yield _by_scaler(overflows, step, sides_of({rank: one.following for rank, one in seen.items()}), step + 1)


def _settings_differ(seen: ByRank, step: int, shared: Sharding | None) -> Iterator[SettingsDiffer]:
    """Settings that are not the same on all ranks; those that tell the same ranks apart are one finding, `lr` before others."""
    settings = {rank: _settings(one) for rank, one in seen.items()}
    if shared is not None:  # groups may hold other parameters on each rank
        common = {
            name for name in set.intersection(*map(set, settings.values())) if "[" not in name and name != STEPPED
        }
        settings = {rank: {name: own[name] for name in common} for rank, own in settings.items()}
    apart: dict[tuple[tuple[int, ...], ...], list[str]] = {}
    for name in sorted({name for own in settings.values() for name in own}, key=lambda name: (name[:2] != "lr", name)):
        decided = vote({rank: own.get(name, "absent") for rank, own in settings.items()})
        if len(decided.sides) > 1:
            apart.setdefault(decided.sides, []).append(name)
    for names in apart.values():
        decided, sides = _voted({rank: own.get(names[0], "absent") for rank, own in settings.items()})
        wrote = lines_that_wrote(seen, "settings", decided.minority)
        given = {rank: line for rank, one in seen.items() if (line := one.setting_lines.get(names[0])) is not None}
        known = given if set(decided.minority) <= set(given) else {}
        yield SettingsDiffer(
            step=step, ranks=decided.minority, tied=decided.tied, names=tuple(names), sides=sides,
            lines=wrote or known or lines_at(seen),
            shown=SettingsAt.THE_WRITE if wrote else SettingsAt.GIVEN if known else SettingsAt.THE_STEP,
        )  # fmt: skip


def _settings(one: StepSeen) -> dict[str, str]:
    """What the update depends on besides tensors: the optimizer's options, and the scale of a GradScaler."""
    return {**one.settings, **({} if one.scale is None else {"the scale of GradScaler": f"{one.scale:g}"})}


def _skipped(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> StepSkipped | None:
    """A rank has made fewer steps than its peers by the same forward, or stands at another batch of its data."""
    step = max(one.step for one in seen.values())
    compared: tuple[tuple[SkipCause, dict[int, Hashable]], ...] = (
        (SkipCause.STEPS, {rank: one.step for rank, one in seen.items()}),
        (SkipCause.POSITION, {rank: one.position for rank, one in seen.items()}),
    )
    for cause, values in compared:
        if len(set(values.values())) == 1:
            continue
        if before is not None and cause is SkipCause.POSITION and len({one.position for one in before.values()}) > 1:
            continue
        decided, sides = _voted(values)
        first = max((one.following for one in before.values()), default=0) if before else 0
        if cause is SkipCause.STEPS and (left_out := _left_out(seen, before, tracks)):
            return _by_scaler(left_out, first, sides, step)
        fewer = _without_a_step(seen, before) if decided.tied and cause is SkipCause.STEPS else ()
        return StepSkipped(
            step=first if cause is SkipCause.STEPS else step, ranks=fewer or decided.minority,
            tied=decided.tied and not fewer, sides=sides,
            cause=cause, lines=lines_at(seen), seen=step,
        )  # fmt: skip
    return None


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


def _by_scaler(left_out: dict[int, OverflowSeen], step: int, sides: tuple[Side, ...], seen: int) -> StepSkipped:
    return StepSkipped(
        step=step, ranks=tuple(sorted(left_out)), sides=sides, cause=SkipCause.FOUND_INF, seen=seen,
        scale=next(iter(left_out.values())).scale or 0.0,
        lines={rank: one.line for rank, one in left_out.items() if one.line is not None},
    )  # fmt: skip


def _written(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> WeightsWritten | None:
    """Weights that were equal after the last step and are not before this one: somebody wrote them in between."""
    if len({one.weights for one in seen.values()}) == 1:
        return None
    if before is not None and any(seen[rank].step != one.following for rank, one in before.items()):
        return None
    if before is None and any(one.step for one in seen.values()):
        return None
    were = {rank: before[rank].after if before else track.start for rank, track in tracks.items()}
    if len(set(were.values())) > 1:
        return None
    writers = tuple(sorted(rank for rank, one in seen.items() if one.weights != were[rank]))
    names = _differing_weights(seen, tracks)
    total = len(tracks[writers[0]].tables[seen[writers[0]].weights].digests)
    decided = vote({rank: one.weights for rank, one in seen.items()})
    culprits = writers if len(writers) < len(seen) else decided.minority
    wrote = lines_that_wrote(seen, "weights", culprits)
    loaded = {rank: line for rank in culprits if (line := seen[rank].lines.get("load")) is not None}
    known = loaded if len(loaded) == len(culprits) else {}
    return WeightsWritten(
        step=max(one.step for one in seen.values()), ranks=culprits, tensors=names, total=total,
        lines=wrote or known or lines_at(seen, "forward"),
        shown=WrittenAt.THE_WRITE if wrote else WrittenAt.A_LOAD if known else WrittenAt.THE_NEXT_FORWARD,
    )  # fmt: skip


def _given_written(seen: ByRank, tracks: Mapping[int, Track]) -> WeightsWritten | None:
    """Weights that were equal at the forward and are not when the optimizer gets them: somebody wrote them in between."""
    if len({one.weights for one in seen.values()}) > 1:
        return None
    names = given_differently(seen, tracks)
    if not names or given_by_itself(seen, tracks, names):
        return None
    writers, decided = who_wrote_given(seen, tracks, names)
    culprits = writers if len(writers) < len(seen) else decided.minority
    wrote = lines_that_wrote(seen, "given weights", culprits)
    return WeightsWritten(
        step=max(one.step for one in seen.values()), ranks=culprits, tensors=names,
        total=max(len(tracks[rank].tables[one.weights].digests) for rank, one in seen.items()),
        lines=wrote or lines_at(seen), shown=WrittenAt.THE_WRITE if wrote else WrittenAt.THE_STEP, after_forward=True,
    )  # fmt: skip


def _differing_weights(seen: ByRank, tracks: Mapping[int, Track]) -> tuple[str, ...]:
    """The parameters that are not equal on all ranks before the forward."""
    tables = [tracks[rank].tables[one.weights].digests for rank, one in seen.items()]
    return tuple(name for name in tables[0] if len({table.get(name) for table in tables}) > 1)


def _non_finite(seen: ByRank, tracks: Mapping[int, Track]) -> LocalNotFinite | None:
    """Some ranks' own gradients or losses are not finite, before anything is reduced, and others' are.

    Under a GradScaler gradients overflow now and then on purpose: there only a loss counts.
    """
    step = max(one.step for one in seen.values())
    bad = {
        rank: [name for name, g in one.gradients.items() if g.local is not None and not math.isfinite(g.local)]
        for rank, one in seen.items()
        if one.scale is None
    }
    lost = [rank for rank, one in seen.items() if one.loss is not None and not math.isfinite(one.loss)]
    culprits = sorted({rank for rank, names in bad.items() if names} | set(lost))
    if not culprits or len(culprits) == len(seen):
        return None
    names = next((names for names in bad.values() if names), [])
    given = [rank for rank in culprits if not seen[rank].finite]
    weights = _differing_weights(seen, tracks)
    broken = {rank: set(weights) & set(seen[rank].not_finite) for rank in culprits}
    cause = NonFiniteCause.LOSS if lost else NonFiniteCause.UNKNOWN
    if given == culprits:
        cause = NonFiniteCause.INPUT
    elif all(broken.values()):
        cause = NonFiniteCause.WEIGHTS
        weights = tuple(name for name in weights if any(name in of_rank for of_rank in broken.values()))
    return LocalNotFinite(
        step=step, ranks=tuple(culprits), tensors=tuple(names),
        lines=lines_at(seen, "forward" if given == culprits else "backward"),
        total=len(next(iter(seen.values())).gradients), lost=bool(lost), cause=cause, weights=weights,
        weights_total=max(len(tracks[rank].tables[one.weights].digests) for rank, one in seen.items()),
    )  # fmt: skip


def _follows_from(found: LocalNotFinite, written: WeightsWritten | StepNotReproducible | None, seen: ByRank) -> bool:
    """Whether weights that changed on these ranks before the forward, frozen or huge ones too, are why numbers are not finite."""
    if written is None or found.cause is NonFiniteCause.INPUT or len({one.weights for one in seen.values()}) == 1:
        return False
    return {*found.ranks} <= {*written.ranks}


def _at_the_end(tracks: Mapping[int, Track], found: list[Divergence]) -> Iterator[StepSkipped]:
    """Ranks that made as many forwards as the others and fewer steps, where no later step showed it."""
    if any(isinstance(one, StepSkipped) for one in found):
        return
    made = {rank: track.steps_made for rank, track in tracks.items() if track.steps_made is not None}
    forwards = {track.forwards_made for track in tracks.values()}
    if len(made) == len(tracks) and len(forwards) == 1 and len(set(made.values())) > 1:
        if (first := _first_skipped(tracks)) is not None:
            yield first
            return
        decided, sides = _voted(made)
        yield StepSkipped(
            step=min(made.values()), ranks=decided.minority, tied=decided.tied, sides=sides, cause=SkipCause.STEPS,
            seen=max(made.values()),
        )  # fmt: skip


def _first_skipped(tracks: Mapping[int, Track]) -> StepSkipped | None:
    """The first forward after which some ranks made no step and the others did, where each step of each rank was seen.

    Ranks that skip other steps later may have made more of them in the end.
    """
    steps = {rank: {one.forwards: one for one in track.steps} for rank, track in tracks.items()}
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


def _read_early(tracks: Mapping[int, Track]) -> Iterator[ReadEarly]:
    """Asynchronous collectives that some ranks never wait for, or not in time, by the operation and what used the result."""
    for op, used_by in sorted({(one.op, one.used_by) for track in tracks.values() for one in track.unwaited}):
        first = {
            rank: one
            for rank, track in tracks.items()
            for one in reversed(track.unwaited)
            if (one.op, one.used_by) == (op, used_by)
        }
        yield ReadEarly(
            step=min(one.step for one in first.values()), ranks=tuple(sorted(first)), op=op, used_by=used_by,
            lines={rank: one.line for rank, one in first.items() if one.line is not None},
        )  # fmt: skip


def gradient_scale(steps: list[ByRank]) -> Iterator[ReductionScaled]:
    """A reduced gradient that is the number of ranks, or its inverse, times the mean of the local ones: step after step."""
    factors: list[tuple[float, ByRank]] = []
    for seen in steps:
        factor = _factor(seen)
        if factor is None:
            return
        factors.append((factor, seen))
    world_size = len(steps[0]) if steps else 1
    if world_size < 2 or not factors:
        return
    first = factors[0][0]
    steady = all(abs(factor / first - 1) < FACTOR_TOLERANCE for factor, _ in factors)
    multiplied = abs(first / world_size - 1) < FACTOR_TOLERANCE
    divided = abs(first * world_size - 1) < FACTOR_TOLERANCE and len(factors) >= STEADY_STEPS
    if steady and (multiplied or divided):
        seen = factors[0][1]
        hooks = {rank: one.comm_hook for rank, one in seen.items() if one.comm_hook}
        yield ReductionScaled(
            step=max(one.step for one in seen.values()), ranks=tuple(sorted(seen)), factor=round(first, 4),
            lines=hooks or lines_at(seen, "backward"), by_hook=bool(hooks),
        )  # fmt: skip


FACTOR_TOLERANCE = 0.01  # compressed reductions (fp16) are within 0.4 % of the mean; clipping is hardly ever 1/N
STEADY_STEPS = 3  # clipping to a norm may shrink one gradient by 1/N, but not three


def _factor(seen: ByRank) -> float | None:
    """The reduced gradient over the mean of the local ones, by projections; None where it is no multiple of it."""
    names = set.intersection(*(set(one.gradients) for one in seen.values()))
    xs, ys = [], []
    for name in names:
        gradients = [one.gradients[name] for one in seen.values()]
        if any(g.local is None or g.standing != "reduced" for g in gradients):
            continue
        if len({g.digest for g in gradients}) > 1:
            return None
        xs.append(sum(g.local or 0.0 for g in gradients) / len(gradients))
        ys.append(gradients[0].reduced)
    scale = next(iter(seen.values())).scale or 1.0
    xx, yy, xy = sum(x * x for x in xs), sum(y * y for y in ys), sum(x * y for x, y in zip(xs, ys, strict=True))
    if not math.isfinite(xx + yy) or xx == 0 or yy == 0 or xy * xy < 0.999 * xx * yy:
        return None
    return xy / xx * scale
