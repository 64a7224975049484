"""Differences that no known code made: weights, buffers or state that changed by themselves, steps with several results.

A difference is put down to the hardware only where everything that it could come from was equal, where PyTorch counts as many
writes on all ranks, and where it is as small as a fault of memory or of a register makes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, devices_of, differing_names, integrity_of, step_of
from ddpdoctor.analysis.replicas.buffer_changes import writes_since, written_on_some_ranks
from ddpdoctor.analysis.replicas.divergences.base import Diverged
from ddpdoctor.analysis.replicas.divergences.gradients import GradientsChanged
from ddpdoctor.analysis.replicas.divergences.results import Corrupted, StepNotReproducible
from ddpdoctor.analysis.replicas.flipped_bits import (
    bits_of,
    by_hardware,
    in_one_element,
    listed_shape,
    shape_of,
    single_bits,
    width_of,
)
from ddpdoctor.analysis.replicas.repeated_steps import with_repetitions
from ddpdoctor.analysis.replicas.step_callsites import lines_at, own_lines
from ddpdoctor.analysis.replicas.weights_before_step import (
    given_by_itself,
    given_differently,
    given_is_known,
    who_wrote_given,
)
from ddpdoctor.evidence.audited_steps import Integrity, StepSeen
from ddpdoctor.evidence.training_trace import Track

LEAST_LOADED = 4  # tensors: a rank that loads another state has others in most of them


def changed_by_itself(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """What of the weights or the optimizer's state differs between ranks in this step, or before it, without any code."""
    before = before or _as_wrapped(seen, tracks)
    if before is None or integrity_of(seen) is None or integrity_of(before) is None or _differ_after(before):
        return None
    if len({one.weights for one in seen.values()}) > 1:
        return _in_memory(seen, before, tracks)
    names = given_differently(seen, tracks)
    if names:
        return _in_given(seen, before, tracks, names) if given_by_itself(seen, tracks, names) else None
    in_buffer = _in_buffer(seen, before, tracks)
    if in_buffer is not None or any(one.left_out for one in seen.values()):
        return in_buffer
    if _state_differs(seen):
        return _in_state(seen, before)
    return _in_step(seen, before, tracks)


def gradient_by_itself(found: Diverged, seen: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """The change of gradients `found` where it may be a fault of the hardware: one element of one gradient, and no code is known.

    As many operations have written the gradients on all ranks between the backward and the step: none, or those that
    clip or unscale. Where a line changed them meanwhile, it made the change, unless that is a single bit.
    """
    now = integrity_of(seen)
    if not isinstance(found, GradientsChanged) or found.left or len(found.tensors) > 1 or now is None:
        return None
    (name,) = found.tensors
    parities = {rank: one.gradients[name].parity for rank, one in seen.items() if name in one.gradients}
    known = {rank: parity for rank, parity in parities.items() if parity is not None}
    writes = {one.gradient_writes for one in now.values()}
    if len(known) < len(seen) or len(writes) > 1 or None in writes or any(one.closure for one in seen.values()):
        return None
    kept = next((known[rank] for rank in known if rank not in found.ranks), known[found.ranks[0]])
    masks = [one ^ kept for one in known.values() if one != kept]
    width = width_of(tracks, name)
    shape = shape_of(seen, tracks, name)
    if not masks or not all(by_hardware(mask, width, shape) for mask in masks):
        return None
    if found.wrote and not single_bits(masks):
        return None
    meanwhile = own_lines(seen, "gradients", found.ranks)
    return StepNotReproducible(
        step=found.step, ranks=found.ranks, tied=found.tied, tensors=found.tensors, at=Corrupted.GRADIENT,
        bits=bits_of(masks[0], width), equal_at=found.step, devices=devices_of(tracks, found.ranks),
        lines=meanwhile or lines_at(seen), meanwhile=bool(meanwhile),
    )  # fmt: skip


def _as_wrapped(seen: ByRank, tracks: Mapping[int, Track]) -> ByRank | None:
    """The moment at which the model was wrapped, as the end of a step before the first; None where `seen` is a later step."""
    found = {}
    for rank, one in seen.items():
        start, integrity = tracks[rank].start, one.integrity
        if one.step or start is None or integrity is None or integrity.wrapped is None:
            return None
        at_wrap = Integrity(begin=integrity.wrapped, state=0, end=integrity.wrapped)
        found[rank] = StepSeen(step=-1, forwards=0, since=0, weights=start, after=start, integrity=at_wrap)
    return found


def _differ_after(seen: ByRank) -> bool:
    return len({one.after for one in seen.values()}) > 1


def _state_differs(seen: ByRank) -> bool:
    states = [one.state for one in seen.values()]
    return any(state != states[0] for state in states)


def _follows(seen: ByRank, before: ByRank) -> bool:
    """Whether no step was made between these two."""
    return all(seen[rank].step == one.following for rank, one in before.items())


def _in_memory(seen: ByRank, before: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """One element of one parameter differs before the step, and as many operations have written the weights on all ranks.

    Where all ranks have changed it since the step before, and operations have written weights, these made the change: an
    initialisation from the rank's own data. After a load it is what a rank has read. Where a line ran meanwhile on these ranks
    only, it made the change, unless that is a single bit.
    """
    now, then = integrity_of(seen), integrity_of(before)
    assert now is not None
    assert then is not None
    name = _only_one({rank: tracks[rank].tables[one.weights].digests for rank, one in seen.items()})
    writes = {now[rank].begin - then[rank].end for rank in seen}
    if not name or len(writes) > 1:
        return None
    moved = [rank for rank, one in seen.items() if one.weights != before[rank].after]
    follows = _follows(seen, before)
    own = follows and len(moved) < len(seen)  # it is seen on which ranks weights changed
    loaded = follows and all("load" in one.lines for one in seen.values())
    if follows and not own and writes != {0} and not loaded:
        return None
    if own and all(name in then[rank].after for rank in moved):
        masks = {rank: now[rank].before.get(name, 0) ^ then[rank].after[name] for rank in moved}
        culprits, tied = tuple(moved), False
    else:
        masks, minority, no_majority = _beside_the_majority(name, now)
        culprits, tied = (tuple(moved), False) if own else (minority, no_majority)
    bits = width_of(tracks, name)
    if not masks or not all(by_hardware(mask, bits, shape_of(seen, tracks, name)) for mask in masks.values()):
        return None
    meanwhile = own_lines(seen, "weights", culprits)
    if meanwhile and not single_bits(masks.values()):
        return None
    if not meanwhile and not own and all(one.writes.get("weights") for one in seen.values()):
        return None
    return StepNotReproducible(
        step=step_of(seen), ranks=culprits, tied=tied, tensors=(name,),
        at=Corrupted.MEMORY if follows else Corrupted.UNSEEN, bits=bits_of(next(iter(masks.values())), bits),
        equal_at=step_of(before), devices=devices_of(tracks, culprits),
        lines=meanwhile or lines_at(seen, "load" if loaded else "forward"), meanwhile=bool(meanwhile), loaded=loaded,
    )  # fmt: skip


def _beside_the_majority(name: str, integrity: Mapping[int, Integrity]) -> tuple[dict[int, int], tuple[int, ...], bool]:
    """By rank, the bits of a parameter that differ from the majority's before the step; the minority; whether it is tied."""
    parities = {rank: (one.before if name in one.before else one.after).get(name, 0) for rank, one in integrity.items()}
    decided = vote(parities)
    usual = parities[decided.sides[0][0]]
    masks = {rank: parities[rank] ^ usual for side in decided.sides[1:] for rank in side}
    return masks, decided.minority, decided.tied


def _in_given(seen: ByRank, before: ByRank, tracks: Mapping[int, Track], names: Sequence[str]) -> StepNotReproducible:
    """One element of one parameter was equal at the forward, and differs when the optimizer gets it."""
    (name,) = names
    writers, decided = who_wrote_given(seen, tracks, names)
    parities = {rank: one.integrity.given_parities.get(name, 0) for rank, one in seen.items() if one.integrity}
    width = width_of(tracks, name)
    mask = next(parities[side[0]] ^ parities[decided.sides[0][0]] for side in decided.sides[1:])
    meanwhile = own_lines(seen, "given weights", writers)
    return StepNotReproducible(
        step=step_of(seen), ranks=writers, tensors=(name,), at=Corrupted.MEMORY, after_forward=True,
        bits=bits_of(mask, width), equal_at=step_of(before), devices=devices_of(tracks, writers),
        lines=meanwhile or lines_at(seen), meanwhile=bool(meanwhile),
    )  # fmt: skip


def _in_buffer(seen: ByRank, before: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """One element of one buffer has changed on some ranks only, and no operation has written it on any rank."""
    now = integrity_of(seen)
    assert now is not None
    changed = written_on_some_ranks(seen, before)
    if len(changed) != 1:
        return None
    ((name, ranks),) = changed.items()
    if writes_since(name, seen, before) != 0:
        return None
    kept = next(one.buffers_before.get(name) for rank, one in now.items() if rank not in ranks)
    parities = [now[rank].buffers_before.get(name) for rank in ranks]
    width = width_of(tracks, name)
    shape = listed_shape(tracks, name)
    masks = [parity ^ kept for parity in parities if parity is not None and kept is not None]
    if len(masks) < len(ranks) or not all(by_hardware(mask, width, shape) for mask in masks):
        return None
    return StepNotReproducible(
        step=step_of(seen), ranks=ranks, tensors=(name,), at=Corrupted.BUFFER,
        bits=bits_of(masks[0], width), equal_at=step_of(before), lines=lines_at(seen, "forward"),
        devices=devices_of(tracks, ranks),
    )  # fmt: skip


def _in_state(seen: ByRank, before: ByRank) -> StepNotReproducible | None:
    """One tensor of the state differs, was not loaded, and as many operations have written the state on all ranks."""
    now, then = integrity_of(seen), integrity_of(before)
    assert now is not None
    assert then is not None
    states = {rank: one.state or {} for rank, one in seen.items()}
    equal_names = len({tuple(state) for state in states.values()}) == 1
    name = _only_one(states) if equal_names and not _state_differs(before) else ""
    written = len({now[rank].state - then[rank].state for rank in seen}) > 1
    loaded = all(one.loaded for one in seen.values())
    if not name or written:
        return None
    if loaded and len(next(iter(states.values()))) < LEAST_LOADED:
        return None
    if not loaded and (any(one.loaded for one in seen.values()) or not _same_update(before)):
        return None
    decided = vote({rank: state[name] for rank, state in states.items()})
    return StepNotReproducible(
        step=step_of(seen), ranks=decided.minority, tied=decided.tied, tensors=(name,),
        at=Corrupted.STATE, equal_at=step_of(before), loaded=loaded,
        lines={rank: one.loaded for rank, one in seen.items() if one.loaded is not None} or lines_at(seen),
        optimizer=next(iter(seen.values())).optimizer,
    )  # fmt: skip


def _in_step(seen: ByRank, before: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """All that the step depends on is equal, and the weights after it are not."""
    now = integrity_of(seen)
    assert now is not None
    if not _differ_after(seen) or not _same_update(seen) or len({one.end - one.begin for one in now.values()}) > 1:
        return None
    names = differing_names(tracks[rank].tables[one.after].digests for rank, one in seen.items())
    decided = vote({rank: one.after for rank, one in seen.items()})
    bits: tuple[int, ...] = ()
    if len(names) == 1 and len(decided.sides) == 2:
        masks = {now[side[0]].after.get(names[0], 0) for side in decided.sides}
        width = width_of(tracks, names[0])
        mask = masks.pop() ^ masks.pop() if len(masks) == 2 else 0
        bits = bits_of(mask, width) if mask and in_one_element(mask, width) else ()
    if not bits and any(one.closure for one in seen.values()):
        return None  # a search along a line follows losses, which are each rank's own
    everywhere = len(decided.sides) == len(seen) > 2
    if not bits and not given_is_known(seen):
        return None  # code may have written weights through `.data` since the forward
    found = StepNotReproducible(
        step=step_of(seen), ranks=decided.minority, tied=decided.tied, tensors=names,
        at=Corrupted.NONDETERMINISTIC if everywhere else Corrupted.STEP, bits=bits, lines=lines_at(seen),
        equal_at=step_of(before), optimizer=next(iter(seen.values())).optimizer,
        devices=devices_of(tracks, decided.minority) if not everywhere else {},
    )  # fmt: skip
    return with_repetitions(found, seen, tracks)


def _same_update(seen: ByRank) -> bool:
    """Whether gradients, settings, scale and state of the step are known, and equal on all ranks."""
    first, *others = seen.values()
    return bool(first.gradients) and all(
        one.settings == first.settings
        and one.scale == first.scale
        and one.state == first.state
        and {name: g.digest for name, g in one.gradients.items()}
        == {name: g.digest for name, g in first.gradients.items()}
        for one in others
    )


def _only_one(tables: Mapping[int, Mapping[str, str]]) -> str:
    """The only name whose fingerprints differ; nothing where there are several, or none."""
    names = differing_names(tables.values())
    return names[0] if len(names) == 1 else ""
