"""Differences that no known code made: weights or state that changed by themselves, reductions with several results, forwards.

A difference is put down to the hardware only where everything that it could come from was equal, where PyTorch counts as many
writes on all ranks, and where it is as small as a fault of memory or of a register makes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.analysis.replicas.buffer_changes import writes_since, written_on_some_ranks
from ddpdoctor.analysis.replicas.divergence import (
    Corrupted,
    Diverged,
    GradientsChanged,
    LossComputedDifferently,
    Repeated,
    StepNotReproducible,
)
from ddpdoctor.analysis.replicas.step_callsites import lines_at, own_lines
from ddpdoctor.evidence.training_trace import Integrity, Recomputed, StepSeen, TensorKind, Track

BITS = {"float64": 64, "float32": 32, "bfloat16": 16, "float16": 16}
WORD_BITS = 64
LEAST_LOADED = 4  # tensors: a rank that loads another state has others in most of them
LEAST_ELEMENTS = 16  # where fewer are written, by `weight.data.clamp_()` say, it may well be a single one


def changed_by_itself(seen: ByRank, before: ByRank | None, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """What of the weights or the optimizer's state differs between ranks in this step, or before it, without any code."""
    before = before or _as_wrapped(seen, tracks)
    if before is None or _integrity(seen) is None or _integrity(before) is None or _differ_after(before):
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


def weights_given(seen: ByRank, tracks: Mapping[int, Track]) -> dict[int, Mapping[str, str]]:
    """The fingerprints of the weights that the optimizer gets, by name: those at the forward where nobody looked again."""
    return {
        rank: one.integrity.given if one.integrity and one.integrity.given else tracks[rank].tables[one.weights].digests
        for rank, one in seen.items()
    }


def _given_is_known(seen: ByRank) -> bool:
    """Whether all ranks have looked at the weights right before the step."""
    return all(one.integrity is not None and one.integrity.given for one in seen.values())


def given_differently(seen: ByRank, tracks: Mapping[int, Track]) -> tuple[str, ...]:
    """The parameters that differ when the optimizer gets them; none where some ranks did not look, and may have the same.

    A rank that has not looked has those of its forward only if no code wrote them unseen: through `.data` PyTorch counts no
    write. So it is where operations wrote as often on all ranks, and others looked for another reason.
    """
    looked = [one.integrity is not None and bool(one.integrity.given) for one in seen.values()]
    if any(looked) and not all(looked) and not _written_unequally(seen):
        return ()
    tables = weights_given(seen, tracks)
    first = next(iter(tables.values()))
    return tuple(name for name in first if len({table.get(name) for table in tables.values()}) > 1)


def who_wrote_given(seen: ByRank, tracks: Mapping[int, Track], names: Sequence[str]) -> tuple[tuple[int, ...], Vote]:
    """The ranks whose weights `names` are no longer those of their forward, and the vote about what the optimizer gets."""
    tables = weights_given(seen, tracks)
    at_forward = {rank: tracks[rank].tables[one.weights].digests for rank, one in seen.items()}
    writers = tuple(sorted(rank for rank in seen if any(tables[rank].get(n) != at_forward[rank].get(n) for n in names)))
    return writers, vote({rank: tuple(map(table.get, names)) for rank, table in tables.items()})


def given_by_itself(seen: ByRank, tracks: Mapping[int, Track], names: Sequence[str]) -> bool:
    """Whether the weights `names`, which differ when the optimizer gets them, may differ by a fault of the hardware.

    That is one element of one parameter that not all ranks have changed, where all have looked at it, and PyTorch counts as many
    writes on all ranks. Where a line ran meanwhile, it is a single bit.
    """
    writers, _ = who_wrote_given(seen, tracks, names)
    if _integrity(seen) is None or _written_unequally(seen) or len(writers) == len(seen):
        return False
    parities = {rank: one.integrity.given_parities.get(names[0]) for rank, one in seen.items() if one.integrity}
    known = [one for one in parities.values() if one is not None]
    if len(names) > 1 or len(known) < len(seen):
        return False
    width = BITS.get(_dtype(tracks, names[0]), WORD_BITS)
    shape = _shape(seen, tracks, names[0])
    masks = [one ^ known[0] for one in known if one != known[0]]
    if own_lines(seen, "given weights", writers) and not _single_bits(masks):
        return False
    return all(_by_hardware(mask, width, shape) for mask in masks)


def gradient_by_itself(found: Diverged, seen: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """The change of gradients `found` where it may be a fault of the hardware: one element of one gradient, and no code is known.

    As many operations have written the gradients on all ranks between the backward and the step: none, or those that
    clip or unscale.
    """
    now = _integrity(seen)
    if not isinstance(found, GradientsChanged) or found.wrote or found.left or len(found.tensors) > 1 or now is None:
        return None
    (name,) = found.tensors
    parities = {rank: one.gradients[name].parity for rank, one in seen.items() if name in one.gradients}
    known = {rank: parity for rank, parity in parities.items() if parity is not None}
    writes = {one.gradient_writes for one in now.values()}
    if len(known) < len(seen) or len(writes) > 1 or None in writes or any(one.closure for one in seen.values()):
        return None
    kept = next((known[rank] for rank in known if rank not in found.ranks), known[found.ranks[0]])
    masks = [one ^ kept for one in known.values() if one != kept]
    width = BITS.get(_dtype(tracks, name), WORD_BITS)
    shape = _shape(seen, tracks, name)
    if not masks or not all(_by_hardware(mask, width, shape) for mask in masks):
        return None
    return StepNotReproducible(
        step=found.step, ranks=found.ranks, tied=found.tied, tensors=found.tensors, at=Corrupted.GRADIENT,
        bits=bits_of(masks[0], width), equal_at=found.step, devices=_devices(tracks, found.ranks), lines=found.lines,
    )  # fmt: skip


def _written_unequally(seen: ByRank) -> bool:
    """Whether operations wrote the weights more often on some ranks, from the forward to the end of the step."""
    return len({one.integrity.end - one.integrity.begin for one in seen.values() if one.integrity is not None}) > 1


def different_forwards(tracks: Mapping[int, Track]) -> Iterator[LossComputedDifferently]:
    """The first probe in which ranks with the same weights, buffers and batch computed different outputs."""
    probes = {rank: {one.forwards: one for one in track.probes} for rank, track in tracks.items()}
    common = set.intersection(*(set(mine) for mine in probes.values())) if probes else set()
    for forwards in sorted(common):
        seen = {rank: mine[forwards] for rank, mine in probes.items()}
        if len({(one.weights, one.input, tuple(one.outputs)) for one in seen.values()}) > 1:
            continue
        modules = next(iter(seen.values())).outputs
        first = next((name for name in modules if len({one.outputs[name] for one in seen.values()}) > 1), "")
        unstable = tuple(sorted(rank for rank, one in seen.items() if any(map(one.changed, modules))))
        if not first and not unstable:
            continue
        if not first:
            first = next(filter(seen[unstable[0]].changed, modules))
        decided = vote({rank: one.outputs[first] for rank, one in seen.items()})
        yield LossComputedDifferently(
            step=max(one.step for one in seen.values()),
            ranks=decided.minority or unstable,
            module=first,
            modules=len(modules),
            tied=decided.tied,
            unstable=unstable,
            settings=tuple(_differing_settings({rank: one.settings for rank, one in seen.items()})),
            devices=_devices(tracks, decided.minority or unstable),
        )
        return


def _differing_settings(settings: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """What is set differently, as text."""
    for name in sorted({name for mine in settings.values() for name in mine}):
        values = {rank: mine.get(name, "unknown") for rank, mine in settings.items()}
        if len(set(values.values())) > 1:
            sides = vote(values).sides
            yield f"{name}: " + ", ".join(f"{values[side[0]]} on {_ranks(side)}" for side in sides)


def _ranks(side: Sequence[int]) -> str:
    return f"rank {side[0]}" if len(side) == 1 else "ranks " + ", ".join(map(str, side))


def _integrity(seen: ByRank) -> dict[int, Integrity] | None:
    found = {rank: one.integrity for rank, one in seen.items() if one.integrity is not None}
    return found if len(found) == len(seen) else None


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
    now, then = _integrity(seen), _integrity(before)
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
        parities = {rank: (one.before if name in one.before else one.after).get(name, 0) for rank, one in now.items()}
        decided = vote(parities)
        culprits, tied = (tuple(moved), False) if own else (decided.minority, decided.tied)
        masks = {rank: parities[rank] ^ parities[decided.sides[0][0]] for side in decided.sides[1:] for rank in side}
    bits = BITS.get(_dtype(tracks, name), WORD_BITS)
    if not masks or not all(_by_hardware(mask, bits, _shape(seen, tracks, name)) for mask in masks.values()):
        return None
    meanwhile = own_lines(seen, "weights", culprits)
    if meanwhile and not _single_bits(masks.values()):
        return None
    if not meanwhile and not own and all(one.writes.get("weights") for one in seen.values()):
        return None
    return StepNotReproducible(
        step=max(one.step for one in seen.values()), ranks=culprits, tied=tied, tensors=(name,),
        at=Corrupted.MEMORY if follows else Corrupted.UNSEEN, bits=bits_of(next(iter(masks.values())), bits),
        equal_at=max(one.step for one in before.values()), devices=_devices(tracks, culprits),
        lines=meanwhile or lines_at(seen, "load" if loaded else "forward"), meanwhile=bool(meanwhile), loaded=loaded,
    )  # fmt: skip


def _in_given(seen: ByRank, before: ByRank, tracks: Mapping[int, Track], names: Sequence[str]) -> StepNotReproducible:
    """One element of one parameter was equal at the forward, and differs when the optimizer gets it."""
    (name,) = names
    writers, decided = who_wrote_given(seen, tracks, names)
    parities = {rank: one.integrity.given_parities.get(name, 0) for rank, one in seen.items() if one.integrity}
    width = BITS.get(_dtype(tracks, name), WORD_BITS)
    mask = next(parities[side[0]] ^ parities[decided.sides[0][0]] for side in decided.sides[1:])
    meanwhile = own_lines(seen, "given weights", writers)
    return StepNotReproducible(
        step=max(one.step for one in seen.values()), ranks=writers, tensors=(name,), at=Corrupted.MEMORY, after_forward=True,
        bits=bits_of(mask, width), equal_at=max(one.step for one in before.values()), devices=_devices(tracks, writers),
        lines=meanwhile or lines_at(seen), meanwhile=bool(meanwhile),
    )  # fmt: skip


def _in_buffer(seen: ByRank, before: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """One element of one buffer has changed on some ranks only, and no operation has written it on any rank."""
    now = _integrity(seen)
    assert now is not None
    changed = written_on_some_ranks(seen, before)
    if len(changed) != 1:
        return None
    ((name, ranks),) = changed.items()
    if writes_since(name, seen, before) != 0:
        return None
    kept = next(one.buffers_before.get(name) for rank, one in now.items() if rank not in ranks)
    parities = [now[rank].buffers_before.get(name) for rank in ranks]
    width = BITS.get(_dtype(tracks, name), WORD_BITS)
    shape = _listed_shape(tracks, name)
    masks = [one ^ kept for one in parities if one is not None and kept is not None]
    if len(masks) < len(ranks) or not all(_by_hardware(mask, width, shape) for mask in masks):
        return None
    return StepNotReproducible(
        step=max(one.step for one in seen.values()), ranks=ranks, tensors=(name,), at=Corrupted.BUFFER,
        bits=bits_of(masks[0], width), equal_at=max(one.step for one in before.values()), lines=lines_at(seen, "forward"),
        devices=_devices(tracks, ranks),
    )  # fmt: skip


def _in_state(seen: ByRank, before: ByRank) -> StepNotReproducible | None:
    """One tensor of the state differs, was not loaded, and as many operations have written the state on all ranks."""
    now, then = _integrity(seen), _integrity(before)
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
        step=max(one.step for one in seen.values()), ranks=decided.minority, tied=decided.tied, tensors=(name,),
        at=Corrupted.STATE, equal_at=max(one.step for one in before.values()), loaded=loaded,
        lines={rank: one.loaded for rank, one in seen.items() if one.loaded is not None} or lines_at(seen),
        optimizer=next(iter(seen.values())).optimizer,
    )  # fmt: skip


def _in_step(seen: ByRank, before: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible | None:
    """All that the step depends on is equal, and the weights after it are not."""
    now = _integrity(seen)
    assert now is not None
    if not _differ_after(seen) or not _same_update(seen) or len({one.end - one.begin for one in now.values()}) > 1:
        return None
    tables = {rank: tracks[rank].tables[one.after].digests for rank, one in seen.items()}
    first = next(iter(tables.values()))
    names = tuple(name for name in first if len({table.get(name) for table in tables.values()}) > 1)
    decided = vote({rank: one.after for rank, one in seen.items()})
    bits: tuple[int, ...] = ()
    if len(names) == 1 and len(decided.sides) == 2:
        masks = {now[side[0]].after.get(names[0], 0) for side in decided.sides}
        width = BITS.get(_dtype(tracks, names[0]), WORD_BITS)
        mask = masks.pop() ^ masks.pop() if len(masks) == 2 else 0
        bits = bits_of(mask, width) if mask and in_one_element(mask, width) else ()
    if not bits and any(one.closure for one in seen.values()):
        return None  # a search along a line follows losses, which are each rank's own
    everywhere = len(decided.sides) == len(seen) > 2
    if not bits and not _given_is_known(seen):
        return None  # code may have written weights through `.data` since the forward
    found = StepNotReproducible(
        step=max(one.step for one in seen.values()), ranks=decided.minority, tied=decided.tied, tensors=names,
        at=Corrupted.NONDETERMINISTIC if everywhere else Corrupted.STEP, bits=bits, lines=lines_at(seen),
        equal_at=max(one.step for one in before.values()), optimizer=next(iter(seen.values())).optimizer,
        devices=_devices(tracks, decided.minority) if not everywhere else {},
    )  # fmt: skip
    return _with_repetitions(found, seen, tracks)


def _with_repetitions(found: StepNotReproducible, seen: ByRank, tracks: Mapping[int, Track]) -> StepNotReproducible:
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
    devices = _devices(tracks, ranks) if at is Corrupted.STEP else {}
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
    width = BITS.get(_dtype(tracks, name), WORD_BITS)
    return bits_of(mask, width) if mask and in_one_element(mask, width) else ()


def _those(digests: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [digests.get(name, "") for name in names]


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
    first = next(iter(tables.values()))
    names = [name for name in first if len({table.get(name) for table in tables.values()}) > 1]
    return names[0] if len(names) == 1 else ""


def _dtype(tracks: Mapping[int, Track], name: str) -> str:
    kinds: Sequence[TensorKind] = next(iter(tracks.values())).kinds
    return next((kind.structure.get("dtype", "") for kind in kinds if kind.name == name), "")


def _shape(seen: ByRank, tracks: Mapping[int, Track], name: str) -> Sequence[int]:
    rank, one = next(iter(seen.items()))
    return tracks[rank].tables[one.weights].shapes.get(name, ())


def _listed_shape(tracks: Mapping[int, Track], name: str) -> Sequence[int]:
    """The shape of a tensor when its model was wrapped."""
    kinds: Sequence[TensorKind] = next(iter(tracks.values())).kinds
    listed = next((kind.structure.get("shape", "") for kind in kinds if kind.name == name), "")
    shape: list[int] = json.loads(listed or "[]")
    return shape


def _by_hardware(mask: int, bits: int, shape: Sequence[int]) -> bool:
    """Whether the bits that differ are as few as a fault changes: those of one element, a single one in a small tensor."""
    few = math.prod(shape) < LEAST_ELEMENTS
    return in_one_element(mask, bits) and not (few and mask & (mask - 1))


def _single_bits(masks: Iterable[int]) -> bool:
    """Whether each is one bit: code that writes an element hardly ever changes one bit of it, and bad memory does."""
    return all(mask and not mask & (mask - 1) for mask in masks)


def in_one_element(mask: int, bits: int) -> bool:
    """Whether all bits that differ lie in the place of one element of a word."""
    lanes = {place // bits for place in range(WORD_BITS) if mask >> place & 1}
    return len(lanes) == 1


def bits_of(mask: int, bits: int) -> tuple[int, ...]:
    """The bits of the element that differ, 0 for the lowest."""
    return tuple(sorted({place % bits for place in range(WORD_BITS) if mask >> place & 1}))


def _devices(tracks: Mapping[int, Track], ranks: Sequence[int]) -> dict[int, str]:
    return {rank: tracks[rank].device for rank in ranks if rank in tracks and tracks[rank].device}
