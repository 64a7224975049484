"""Settings of the optimizer and modes of modules that are not the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.analysis.replicas.divergences.steps import ModesDiffer, SettingsAt, SettingsDiffer
from ddpdoctor.analysis.replicas.gradient_sync import STEPPED
from ddpdoctor.analysis.replicas.sharded_optimizers import Sharding
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import LastSettings, OptimizerSteps, Track

FLOAT_DIGITS = 17  # significant digits that tell all float64 values apart
HOW_COMPUTED = frozenset({"foreach", "fused", "capturable", "differentiable"})  # options of one and the same update


def settings_differ(seen: ByRank, step: int, shared: Sharding | None) -> Iterator[SettingsDiffer]:
    """Settings that are not the same on all ranks; those that tell the same ranks apart are one finding, `lr` before others.

    Those come first that tell the ranks apart as their weights do after the step. One that chooses how the update is computed
    counts only where no two ranks with other values of it have the same weights.
    """
    settings = {rank: _settings(one) for rank, one in seen.items()}
    if shared is not None:  # groups may hold other parameters on each rank
        common = {
            name for name in set.intersection(*map(set, settings.values())) if "[" not in name and name != STEPPED
        }
        settings = {rank: {name: own[name] for name in common} for rank, own in settings.items()}
    apart: dict[tuple[tuple[int, ...], ...], list[str]] = {}
    after = {rank: one.after for rank, one in seen.items()}
    for name in sorted({name for own in settings.values() for name in own}, key=_order):
        decided = vote({rank: own.get(name, "absent") for rank, own in settings.items()})
        if len(decided.sides) > 1 and not (_is_how(name) and _share_weights(decided.sides, after)):
            apart.setdefault(decided.sides, []).append(name)
    as_weights = {*vote(after).sides}
    for _, names in sorted(apart.items(), key=lambda item: {*item[0]} != as_weights):
        values = {rank: own.get(names[0], "absent") for rank, own in settings.items()}
        decided, sides = vote(values), sides_of(_shortened(values))
        wrote = lines_that_wrote(seen, "settings", decided.minority)
        given = {rank: line for rank, one in seen.items() if (line := one.setting_lines.get(names[0])) is not None}
        known = given if set(decided.minority) <= set(given) else {}
        yield SettingsDiffer(
            step=step, ranks=decided.minority, tied=decided.tied, names=tuple(names), sides=sides,
            lines=wrote or known or lines_at(seen),
            shown=SettingsAt.THE_WRITE if wrote else SettingsAt.GIVEN if known else SettingsAt.THE_STEP,
        )  # fmt: skip


def _order(name: str) -> tuple[bool, bool, str]:
    return _is_how(name), name[:2] != "lr", name


def _is_how(name: str) -> bool:
    return name.partition("[")[0] in HOW_COMPUTED


def _share_weights(sides: Sequence[Sequence[int]], after: Mapping[int, str]) -> bool:
    """Whether two ranks with different settings have the same weights."""
    return len({(side, after[rank]) for side in sides for rank in side}) > len({*after.values()})


def _shortened(values: Mapping[int, str]) -> dict[int, str]:
    """The values with as few digits as tell them apart, at least six: `0.01` and not `0.010000000000000002`."""
    for digits in range(6, FLOAT_DIGITS):
        shorter = {rank: _rounded(value, digits) for rank, value in values.items()}
        if len({*shorter.values()}) == len({*values.values()}):
            return shorter
    return dict(values)


def _rounded(value: str, digits: int) -> str:
    """A floating-point number with at most so many significant digits; any other value as it is."""
    if {".", "e"}.isdisjoint(value):  # a whole number, or a word
        return value
    try:
        return f"{float(value):.{digits}g}"
    except ValueError:
        return value


def first_settings_differ(tracks: Mapping[int, Track], shared: Sharding | None) -> Iterator[SettingsDiffer]:
    """Settings that differ at the first step of an optimizer, however seldom steps were looked at since."""
    for first in _by_optimizer(tracks):
        began = {rank: one.began for rank, one in first.items()}
        lines = {rank: one.first for rank, one in first.items()}
        yield from settings_differ(_seen(first, began, lines), max(began.values()), shared)


def last_settings_differ(tracks: Mapping[int, Track], shared: Sharding | None) -> Iterator[SettingsDiffer]:
    """Settings that differ after the last step of an optimizer, where the ranks end with different weights.

    Where the weights are equal, settings that differ had no effect: they may have changed since that step.
    """
    ends = {end for track in tracks.values() for end in track.left[-1:]}
    if len({end.weights for end in ends}) == 1 or len(moments := {(end.step, end.moment) for end in ends}) != 1:
        return
    ((step, _),) = moments
    for each in _by_optimizer(tracks):
        last = {rank: one.last for rank, one in each.items() if one.last is not None}
        if len(last) == len(tracks) and len({(one.steps, one.moment) for one in last.values()}) == 1:
            yield from settings_differ(_seen(last, dict.fromkeys(last, step), {}), step, shared)


def _by_optimizer(tracks: Mapping[int, Track]) -> Iterator[dict[int, OptimizerSteps]]:
    """The steps of each optimizer by rank; of none where the ranks have others."""
    made = {rank: track.by_optimizer for rank, track in tracks.items()}
    if len({tuple(one.name for one in own) for own in made.values()}) == 1:
        yield from (dict(zip(made, each, strict=True)) for each in zip(*made.values(), strict=True))


def _seen(
    of_ranks: Mapping[int, OptimizerSteps | LastSettings], steps: Mapping[int, int], lines: Mapping[int, Frame | None]
) -> dict[int, StepSeen]:
    """The settings that all ranks have, as of an audited step; not the number of parameters, of which a rank may have a part."""
    common = set.intersection(*(set(one.settings) for one in of_ranks.values()))
    names = {name for name in common if not name.startswith(STEPPED)}
    return {
        rank: StepSeen(
            step=steps[rank], forwards=0, since=0, weights="", after="", line=lines.get(rank),
            settings={name: one.settings[name] for name in names}, setting_lines=one.setting_lines,
        )
        for rank, one in of_ranks.items()
    }  # fmt: skip


def _settings(one: StepSeen) -> dict[str, str]:
    """What the update depends on besides tensors: the optimizer's options, and the scale of a GradScaler."""
    return {**one.settings, **({} if one.scale is None else {"the scale of GradScaler": f"{one.scale:g}"})}


def modes_differ(seen: ByRank, before: ByRank | None, step: int) -> Iterator[ModesDiffer]:
    """Modules in evaluation mode on some ranks alone; where all ranks were alike before, those that changed are at fault."""
    modes = {rank: tuple(sorted(one.modes.items())) for rank, one in seen.items()}
    decided = vote(modes)
    if len(decided.sides) == 1:
        return
    were = {tuple(sorted(one.modes.items())) for one in before.values()} if before is not None else set()
    changed = tuple(rank for rank in sorted(modes) if modes[rank] not in were) if len(were) == 1 else ()
    is_decided = 0 < len(changed) < len(modes)
    ranks = changed if is_decided else decided.minority
    alone = not any(one.modes for rank, one in seen.items() if rank not in ranks)
    calls = {rank: line for rank in ranks if alone and (line := seen[rank].lines.get("eval")) is not None}
    yield ModesDiffer(
        step=step,
        ranks=ranks,
        tied=decided.tied and not is_decided,
        sides=sides_of({rank: one.evaluating or "none" for rank, one in seen.items()}),
        lines=calls or lines_at(seen, "forward"),
        set_here=bool(calls),
    )
