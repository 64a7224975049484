"""What became of the gradients in one step: reduced and equal, never reduced, or changed on some ranks afterwards."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from typing_extensions import assert_never

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.divergence import Divergence
from ddpdoctor.analysis.replicas.divergences.gradients import (
    GradientsChanged,
    GradientsNotReduced,
    NotReducedCause,
    ParameterOutside,
)
from ddpdoctor.analysis.replicas.divergences.results import CollectiveDiffers
from ddpdoctor.analysis.replicas.step_callsites import lines_at, lines_that_wrote
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Track, model_prefix
from ddpdoctor.grouping import grouped

ALIKE = 0.999  # cosine of projections: exact reductions give 1 - 1e-11, unrelated gradients of ten tensors almost never this
STRAIGHT = 1 - 1e-8  # the same where nothing but a scale may have been changed
STEPPED = "number of parameters"  # with it begins the name of the setting that counts those of an optimizer's group
EXACT = 1e-4  # relative: rounding of a float32 projection is about 1e-6

# the call to blame, where the parameter itself has no origin that is
SHOWN_AT = {
    NotReducedCause.NO_FORWARD: "backward",
    NotReducedCause.NO_SYNC: "forward",
    NotReducedCause.AGAIN: "backward",
    NotReducedCause.AUTOGRAD_GRAD: "grad",
}
_OF_STANDING = {one.value: one for one in NotReducedCause}


class _Happened(Enum):
    """What became of a gradient, where it is not that DDP did not reduce it."""

    OUTSIDE = "outside"
    CHANGED = "changed"


def gradient_divergences(
    seen: Mapping[int, StepSeen], step: int, *, apart: Collection[str]
) -> Iterator[GradientsNotReduced | ParameterOutside | GradientsChanged | CollectiveDiffers]:
    """The gradients that differ between ranks when the optimizer gets them, by what happened to them.

    Those of the parameters `apart` are each rank's own by design.
    """
    names = [name for one in seen.values() for name in one.gradients if name not in apart]
    differing = [name for name in dict.fromkeys(names) if _differs(name, seen) and not _is_stepped_by_some(name, seen)]
    groups = grouped((_what_happened(name, differing, seen), name) for name in differing)
    everybody, total = tuple(sorted(seen)), len(set(names))
    for happened, members in groups.items():
        tensors = tuple(members)
        match happened:
            case NotReducedCause():
                ranks = _kept_by(happened, seen)
                lines = _lines(members[0], happened, {rank: seen[rank] for rank in ranks})
                yield GradientsNotReduced(
                    step=step, ranks=ranks, tensors=tensors, total=total, cause=happened, lines=lines
                )
            case _Happened.OUTSIDE:
                made = all(members[0] in one.origins for one in seen.values())
                lines = _lines(members[0], None, seen) if made else lines_at(seen)
                yield ParameterOutside(step=step, ranks=everybody, tensors=tensors, total=total, lines=lines, made=made)
            case _Happened.CHANGED if received := _received_differently(members, seen):
                yield _collective_differs(received, seen, step, total)
            case _Happened.CHANGED:
                changed, left = _who_changed(members, seen), _who_left(members, seen)
                wrote = lines_that_wrote(seen, "gradients", changed)
                yield GradientsChanged(
                    step=step, ranks=left or changed, tied=len(changed) == len(seen), tensors=tensors, total=total,
                    lines=wrote or _lines(members[0], None, seen), wrote=bool(wrote), left=bool(left),
                )  # fmt: skip
            case _:
                assert_never(happened)


def reduction_differs(seen: Mapping[int, StepSeen], step: int) -> CollectiveDiffers | None:
    """One reduction with several results, where DDP has reduced; by fingerprints alone, as numbers may not be finite."""
    names = [*next(iter(_reductions(seen).values()), {})]
    received = _received_differently(names, seen)
    if not received or not _most_received_the_same(seen):
        return None
    return _collective_differs(received, seen, step, len(names))


def past_the_wrapper(found: Divergence, tracks: Mapping[int, Track]) -> Divergence:
    """`found`; of a backward without a forward, with the line of a later step that calls a part of the model past its wrapper."""
    if not isinstance(found, GradientsNotReduced) or found.cause is not NotReducedCause.NO_FORWARD:
        return found
    prefix = model_prefix(found.tensors[0])
    calls = {
        rank: next((one.bypassed[prefix] for one in tracks[rank].steps if one.step > found.step and prefix in one.bypassed), None)
        for rank in found.ranks
    }  # fmt: skip
    lines = {rank: line for rank, line in calls.items() if line is not None}
    return replace(found, cause=NotReducedCause.BYPASSED, lines=lines) if len(lines) == len(calls) else found


def _collective_differs(
    received: tuple[str, ...], seen: Mapping[int, StepSeen], step: int, total: int
) -> CollectiveDiffers:
    sides = vote({rank: tuple(reduced[name] for name in received) for rank, reduced in _reductions(seen).items()})
    culprits = sides.minority if not sides.tied else _who_changed(received, seen)
    return CollectiveDiffers(
        step=step, ranks=culprits, tied=len(culprits) == len(seen), tensors=received, total=total,
        lines=lines_at(seen, "backward"),
    )  # fmt: skip


def _lines(name: str, cause: NotReducedCause | None, seen: Mapping[int, StepSeen]) -> dict[int, Frame]:
    """Where the user's code let it happen to the gradient of `name`; where it stepped, if that is not known."""
    found = {}
    at_call = lines_at(seen, SHOWN_AT.get(cause, "step") if cause is not None else "step")
    for rank, one in seen.items():
        bypassed = one.bypassed.get(model_prefix(name)) if cause is NotReducedCause.BYPASSED else None
        origin = one.origins.get(name) if cause is not NotReducedCause.NO_MODEL else None
        hook = one.comm_hook if cause is NotReducedCause.BY_HOOK else None
        line = origin or bypassed or hook or at_call.get(rank)
        if line is not None:
            found[rank] = line
    return found


def _differs(name: str, seen: Mapping[int, StepSeen]) -> bool:
    return len({_digest(name, one) for one in seen.values()}) > 1


def _digest(name: str, one: StepSeen) -> str:
    return one.gradients[name].digest if name in one.gradients else ""


def _what_happened(name: str, differing: Sequence[str], seen: Mapping[int, StepSeen]) -> _Happened | NotReducedCause:
    gradients = {rank: one.gradients.get(name) for rank, one in seen.items()}
    standings = {g.standing for g in gradients.values() if g is not None}
    if "outside" in standings:
        return _Happened.OUTSIDE
    for standing in ("added", "replaced", "unfrozen", "ignored"):
        if standing in standings:
            return _OF_STANDING[standing]
    present = [g for g in gradients.values() if g is not None]
    if _is_dropped(name, seen):
        return _Happened.CHANGED
    if all(g.local is None for g in present):
        return _by_no_backward_of_ddp(standings, seen)
    if len(present) == len(seen) and not _is_local(differing, seen) and _some_are_reduced(differing, seen):
        return _Happened.CHANGED
    cause = _cause(name, present, seen)
    unfinished = cause is NotReducedCause.UNFINISHED
    if unfinished and _received_differently(differing, seen) and _most_received_the_same(seen):
        return _Happened.CHANGED
    if unfinished and len(present) == len(seen) and _are_no_ones_own(differing, seen):
        return _Happened.CHANGED
    return NotReducedCause.BY_HOOK if unfinished and _hook_leaves_apart(differing, seen) else cause


def _by_no_backward_of_ddp(standings: set[str], seen: Mapping[int, StepSeen]) -> NotReducedCause:
    """Why autograd accumulated no gradient that DDP could have reduced."""
    if standings == {"no model"}:
        return NotReducedCause.NO_MODEL
    no_forward = all(one.wrapped == 0 and "backward" in one.lines for one in seen.values())
    return NotReducedCause.NO_FORWARD if no_forward else NotReducedCause.AUTOGRAD_GRAD


def _is_stepped_by_some(name: str, seen: Mapping[int, StepSeen]) -> bool:
    """Whether the gradient is missing on ranks whose optimizer steps other parameters than the rest."""
    steps = {
        rank: sorted(item for item in one.settings.items() if item[0].startswith(STEPPED)) for rank, one in seen.items()
    }
    return any(name not in one.gradients for one in seen.values()) and len({*map(tuple, steps.values())}) > 1


def _is_dropped(name: str, seen: Mapping[int, StepSeen]) -> bool:
    """Whether DDP has reduced the gradient, and some ranks no longer have it."""
    present = [one.gradients[name] for one in seen.values() if name in one.gradients]
    equal = len({g.digest for g in present}) == 1 and all(
        g.standing == "reduced" and g.local is not None for g in present
    )
    unsynchronised = any(one.synchronised is False for one in seen.values())
    return len(present) < len(seen) and equal and not unsynchronised and not _is_local([name], seen)


def _cause(name: str, gradients: Sequence[Gradient], seen: Mapping[int, StepSeen]) -> NotReducedCause:
    if all(g.standing == "no model" for g in gradients):
        return NotReducedCause.NO_MODEL
    if all(model_prefix(name) in one.bypassed for one in seen.values()):
        return NotReducedCause.BYPASSED
    if any(one.synchronised is False for one in seen.values()):
        return NotReducedCause.NO_SYNC
    if all(g.count > one.wrapped for g, one in zip(gradients, seen.values(), strict=False)):
        return NotReducedCause.AGAIN
    return NotReducedCause.UNFINISHED


def _kept_by(cause: NotReducedCause, seen: Mapping[int, StepSeen]) -> tuple[int, ...]:
    """The ranks that let DDP not reduce gradients: those whose forward ran under `no_sync`, where that is the cause; else all."""
    under_no_sync = cause is NotReducedCause.NO_SYNC
    return tuple(sorted(rank for rank, one in seen.items() if not under_no_sync or one.synchronised is False))


def _is_local(names: Sequence[str], seen: Mapping[int, StepSeen]) -> bool:
    """Whether every rank's gradients are its own, exactly."""
    return all(
        (g := one.gradients.get(name)) is None
        or (g.local is not None and abs(g.reduced - g.local) <= EXACT * max(abs(g.local), 1e-30))
        for name in names
        for one in seen.values()
    )


def _hook_leaves_apart(names: Sequence[str], seen: Mapping[int, StepSeen]) -> bool:
    """Whether a communication hook gave the ranks other gradients: it has averaged them inside groups of ranks."""
    if any(one.comm_hook is None for one in seen.values()) or _is_local(names, seen):
        return False
    sides = vote({rank: tuple(_digest(name, one) for name in names) for rank, one in seen.items()}).sides
    return all(len(side) > 1 for side in sides)


def _are_no_ones_own(names: Sequence[str], seen: Mapping[int, StepSeen]) -> bool:
    """Whether no rank's gradients are its own, clipped or not, while DDP reduced others: then it reduced these, too."""
    if len(names) == len({name for one in seen.values() for name in one.gradients}):
        return False
    return all(
        _alike(_reduced(names, one), [one.gradients[name].local or 0.0 for name in names]) is None
        for one in seen.values()
    )


def _some_are_reduced(names: Sequence[str], seen: Mapping[int, StepSeen]) -> bool:
    means = _means(names, seen)
    return any(_alike(_reduced(names, one), means) is not None for one in seen.values())


def _reductions(seen: Mapping[int, StepSeen]) -> dict[int, Mapping[str, str]]:
    """The fingerprints when the backward returned of the gradients that the optimizer gets and that DDP reduces, by rank.

    Empty where some rank did not see them, or a communication hook of the user's own reduced them.
    """
    names = [
        name for name in next(iter(seen.values())).gradients if all(_is_reduced(name, one) for one in seen.values())
    ]
    found: dict[int, Mapping[str, str]] = {
        rank: {name: one.integrity.reduced.get(name, "") for name in names}
        for rank, one in seen.items()
        if one.integrity is not None and one.integrity.reduced and (one.comm_hook is None or one.hook_of_torch)
    }
    return found if len(found) == len(seen) else {}


def _is_reduced(name: str, one: StepSeen) -> bool:
    return name in one.gradients and one.gradients[name].standing == "reduced"


def _received_differently(names: Sequence[str], seen: Mapping[int, StepSeen]) -> tuple[str, ...]:
    """Of `names` those whose gradients differed already when the backward returned."""
    reductions = _reductions(seen)
    return tuple(name for name in names if len({reduced.get(name) for reduced in reductions.values()}) > 1)


def _most_received_the_same(seen: Mapping[int, StepSeen]) -> bool:
    """Whether all ranks but one received the same gradients, or two ranks received most of them alike."""
    reductions = _reductions(seen)
    names = next(iter(reductions.values()), {})
    differing = [name for name in names if len({reduced.get(name) for reduced in reductions.values()}) > 1]
    sides = vote({rank: tuple(reduced.items()) for rank, reduced in reductions.items()})
    return len(sides.majority) == len(seen) - 1 > 1 or 2 * len(differing) < len(names)


def _who_changed(names: Sequence[str], seen: Mapping[int, StepSeen]) -> tuple[int, ...]:
    """The ranks whose gradients are not as they were reduced; all ranks where it cannot be told.

    Ranks that changed nothing hold the same bytes: those that are the mean of the local gradients, else those that most ranks
    hold (all may clip), else the only ones that are a multiple of the mean.
    """
    means = _means(names, seen)
    sides = vote({rank: tuple(_digest(name, one) for name in names) for rank, one in seen.items()})
    factors = {side: _alike(_reduced(names, seen[side[0]]), means, STRAIGHT) for side in sides.sides}
    scaled = {side: factor * (seen[side[0]].scale or 1.0) for side, factor in factors.items() if factor is not None}
    unchanged = [side for side, factor in scaled.items() if abs(factor - 1) <= EXACT]
    if len(unchanged) != 1:
        unchanged = [sides.majority] if sides.majority else list(scaled)
    return tuple(sorted(set(seen) - set(unchanged[0]))) if len(unchanged) == 1 else tuple(sorted(seen))


def _who_left(names: Sequence[str], seen: Mapping[int, StepSeen]) -> tuple[int, ...]:
    """The few ranks whose gradients are as they were reduced, where all others changed theirs alike; else nobody."""
    sides = vote({rank: tuple(_digest(name, one) for name in names) for rank, one in seen.items()})
    changed_alike = len(sides.sides) == 2 and sides.majority == _who_changed(names, seen)
    return sides.minority if changed_alike else ()


def _means(names: Sequence[str], seen: Mapping[int, StepSeen]) -> list[float]:
    locals_ = [[one.gradients[name].local for one in seen.values() if name in one.gradients] for name in names]
    return [sum(value or 0.0 for value in values) / len(seen) for values in locals_]


def _reduced(names: Sequence[str], one: StepSeen) -> list[float]:
    return [one.gradients[name].reduced if name in one.gradients else 0.0 for name in names]


def _alike(values: Sequence[float], means: Sequence[float], least: float = ALIKE) -> float | None:
    """The factor by which `values` are a multiple of `means`, or None where they are none."""
    xx = sum(x * x for x in means)
    yy = sum(y * y for y in values)
    xy = sum(x * y for x, y in zip(means, values, strict=True))
    if not math.isfinite(xx + yy) or xx == 0 or yy == 0:
        return None
    if len(means) < 3 and abs(xy / xx - 1) > EXACT:
        return None
    return xy / xx if xy * xy >= least**2 * xx * yy else None
