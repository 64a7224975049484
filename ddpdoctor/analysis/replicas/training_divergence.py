"""Tracks of all ranks to the ways in which they part: aligned first, then phase by phase in the order of a step."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from typing_extensions import assert_never

from ddpdoctor.analysis.replicas.aligned_steps import (
    ByRank,
    StepKey,
    aligned,
    last_equal,
    number_made,
    step_of,
    with_left_out,
)
from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.analysis.replicas.data_sharding import data_divergences
from ddpdoctor.analysis.replicas.different_forwards import different_forwards
from ddpdoctor.analysis.replicas.divergence import Divergence, Divergences
from ddpdoctor.analysis.replicas.divergences.data import (
    PartialMetric,
    SameDraws,
    SameInputs,
    SameOrder,
    SameSamples,
    SamplesOverlap,
    UnevenBatches,
)
from ddpdoctor.analysis.replicas.divergences.gradients import (
    GradientsChanged,
    GradientsNotReduced,
    LocalNotFinite,
    NonFiniteCause,
    ParameterOutside,
    ReadEarly,
    ReductionScaled,
)
from ddpdoctor.analysis.replicas.divergences.results import (
    CollectiveDiffers,
    LossComputedDifferently,
    StepNotReproducible,
    UnwrappedDiffers,
)
from ddpdoctor.analysis.replicas.divergences.steps import (
    HowWritten,
    ModesDiffer,
    SettingsAt,
    SettingsDiffer,
    StepSkipped,
    WeightsWritten,
    WrittenAt,
)
from ddpdoctor.analysis.replicas.gradient_sync import gradient_divergences, past_the_wrapper, reduction_differs
from ddpdoctor.analysis.replicas.hardware_errors import changed_by_itself, gradient_by_itself
from ddpdoctor.analysis.replicas.local_steps import averages_weights, comparable, has_reduced
from ddpdoctor.analysis.replicas.reduction_scale import gradient_scale, uneven_scale
from ddpdoctor.analysis.replicas.replica_groups import of_each_group
from ddpdoctor.analysis.replicas.rng_sync import same_draws
from ddpdoctor.analysis.replicas.settings_of_ranks import (
    first_settings_differ,
    last_settings_differ,
    modes_differ,
    settings_differ,
)
from ddpdoctor.analysis.replicas.sharded_optimizers import differs_after, sharding
from ddpdoctor.analysis.replicas.skipped_steps import left_out_by_scaler, skipped_in_all, skipped_steps
from ddpdoctor.analysis.replicas.step_callsites import lines_at
from ddpdoctor.analysis.replicas.unwrapped_models import differing_copies
from ddpdoctor.analysis.replicas.written_parts import parts_written
from ddpdoctor.analysis.replicas.written_weights import (
    differing_weights,
    given_weights_written,
    weights_written,
    written_between_audits,
)
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import SkipCheck, group_ranks


def derive(tracks: PerRank[Track]) -> Divergences:
    """Every way in which replicas diverge, at its first step; the scan ends at the step after which the weights differ."""
    of_rank = by_rank(tracks)
    each = of_each_group(of_rank, _of_replicas)
    return Divergences(
        steps=max(one.steps for one in each),
        world_size=len(of_rank),
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
    compared = comparable(by_rank, steps) if averaged else with_left_out(by_rank)
    found: list[Divergence] = []
    last: StepKey | None = None  # up to which the ranks have the same weights; None for all steps
    for place, seen in enumerate(compared):
        reduced = not averaged or has_reduced(seen)
        found += _at_step(seen, compared[place - 1] if place else None, by_rank, gradients=reduced)
        if reduced and differs_after(seen, by_rank, sharding(seen, by_rank)):
            last = last_equal(seen, compared[place - 1] if place else None)
            break
    if not any(isinstance(one, SettingsDiffer) for one in found):
        shared = sharding(compared[0], by_rank) if compared else None
        found += [*first_settings_differ(by_rank, shared)] or [*last_settings_differ(by_rank, shared)]
    found += skipped_in_all(by_rank, found)
    found += [*gradient_scale(steps)] or [*uneven_scale(steps)] if not averaged else ()
    found += data_divergences(by_rank, steps)
    found += same_draws(steps)
    found += _read_early(by_rank)
    found += different_forwards(by_rank)
    found += differing_copies(by_rank, until=last) if not averaged else ()
    return Divergences(steps=number_made(by_rank, steps), world_size=len(by_rank), found=tuple(found))


def _without_an_optimizer(tracks: Mapping[int, Track]) -> tuple[int, ...]:
    """The ranks that made no step and no backward, where others did and nothing is wrapped: actors beside a learner."""
    if any(track.wrap_lines or track.start for track in tracks.values()):
        return ()
    idle = tuple(
        rank
        for rank, track in sorted(tracks.items())
        if track.steps_made == 0 and not any("backward" in step.lines for step in track.steps)
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


def _at_step(
    seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track], *, gradients: bool
) -> Iterator[Divergence]:
    step = step_of(seen)
    skipped = skipped_steps(seen, before, tracks)
    if skipped is not None:
        yield skipped
        return
    if any(one.left_out for one in seen.values()):
        yield from _at_left_out(seen, before, tracks, step)
        return
    given = given_weights_written(seen, tracks) if gradients else None
    by_itself = changed_by_itself(seen, before, tracks) if gradients and given is None else None
    written = given or by_itself or weights_written(seen, before, tracks)
    if written is None and gradients:
        written = parts_written(seen, before)
    if written is not None:
        yield written
    others = [*_beside_weights(seen, before, tracks, written, gradients=gradients)]
    yield from others
    if written is None and not others and gradients:
        later = written_between_audits(seen, before, tracks)
        if later is not None:
            yield later


def _beside_weights(
    seen: ByRank,
    before: ByRank | None,
    tracks: Mapping[int, Track],
    written: WeightsWritten | StepNotReproducible | None,
    *,
    gradients: bool,
) -> Iterator[Divergence]:
    """What differs at a step besides the weights before it: numbers that are not finite, gradients, settings, modes."""
    step = step_of(seen)
    non_finite = _non_finite(seen, before, tracks)
    if non_finite is not None and not _follows_from(non_finite, written, seen):
        yield non_finite
    shared = sharding(seen, tracks)
    if non_finite is None and gradients:
        for one in gradient_divergences(seen, step, apart=shared.names if shared is not None else frozenset()):
            if not _follows_from_other_parameters(one, written):
                yield gradient_by_itself(one, seen, tracks) or past_the_wrapper(one, tracks)
    yield from settings_differ(seen, step, shared)
    yield from modes_differ(seen, before, step)


def _at_left_out(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track], step: int) -> Iterator[Divergence]:
    """What differs at a step that a GradScaler left out on all ranks or on some, where gradients are not finite."""
    written = changed_by_itself(seen, before, tracks) or weights_written(seen, before, tracks)
    if written is not None:
        yield written
        return
    received = reduction_differs(seen, step)
    if received is not None:
        yield received
        return
    if before is not None and (lost := _lost(seen)) and lost == _lost(before):
        non_finite = _non_finite(seen, before, tracks)
        if non_finite is not None and non_finite.ranks == lost:
            yield non_finite
            return
    overflows = {
        rank: overflow for rank in seen for overflow in tracks[rank].overflows if overflow.forwards == seen[rank].forwards
    }  # fmt: skip
    if 0 < len(overflows) < len(seen):
        yield left_out_by_scaler(
            overflows, step, sides_of({rank: one.following for rank, one in seen.items()}), step + 1
        )


def _lost(seen: ByRank) -> tuple[int, ...]:
    """The ranks whose loss was NaN in a step that was left out on all ranks: no scale is too large for that."""
    if not all(one.left_out for one in seen.values()):
        return ()
    return tuple(sorted(rank for rank, one in seen.items() if one.loss is not None and math.isnan(one.loss)))


def _non_finite(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> LocalNotFinite | None:
    """Some ranks' own gradients or losses are not finite, before anything is reduced, and others' are.

    Under a GradScaler gradients overflow now and then on purpose: there only a loss counts.
    """
    step = step_of(seen)
    bad = {
        rank: [name for name, g in one.gradients.items() if g.local is not None and not math.isfinite(g.local)]
        for rank, one in seen.items()
        if one.scale is None
    }
    lost = [rank for rank, one in seen.items() if one.loss is not None and not math.isfinite(one.loss)]
    culprits = sorted({rank for rank, names in bad.items() if names} | set(lost))
    if not culprits or len(culprits) == len(seen):
        return _lost_first(seen, before)
    names = next((names for names in bad.values() if names), [])
    given = [rank for rank in culprits if not seen[rank].finite]
    weights = differing_weights(seen, tracks)
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


def _lost_first(seen: ByRank, before: ByRank | None) -> LocalNotFinite | None:
    """The ranks whose loss was the first that was not finite, where that of all ranks is by now: the reduction spread it.

    Only at the first audited step after it, and not under a GradScaler, which leaves such a step out.
    """
    since = {
        rank: one.lost_at
        for rank, one in seen.items()
        if one.scale is None and one.lost_at is not None and (one.loss is None or not math.isfinite(one.loss))
    }
    first = [rank for rank, step in since.items() if step == min(since.values())]
    if len(since) < len(seen) or len(first) == len(seen) or (before is not None and step_of(before) >= since[first[0]]):
        return None
    return LocalNotFinite(
        step=since[first[0]], ranks=tuple(sorted(first)), lines=lines_at({rank: seen[rank] for rank in first}, "lost"), lost=True,
        total=len(next(iter(seen.values())).gradients), cause=NonFiniteCause.LOSS,
    )  # fmt: skip


def _follows_from_other_parameters(found: Divergence, written: Divergence | None) -> bool:
    """Whether these ranks changed gradients since their model has other parameters: a norm over all of them is another one."""
    if not isinstance(written, WeightsWritten) or written.how is not HowWritten.CHANGED_MODEL:
        return False
    return isinstance(found, GradientsChanged) and {*found.ranks} <= {*written.ranks}


def _follows_from(found: LocalNotFinite, written: WeightsWritten | StepNotReproducible | None, seen: ByRank) -> bool:
    """Whether weights that changed on these ranks before the forward, frozen or huge ones too, are why numbers are not finite."""
    if written is None or found.cause is NonFiniteCause.INPUT or len({one.weights for one in seen.values()}) == 1:
        return False
    return {*found.ranks} <= {*written.ranks}


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
