"""The weights that the optimizer gets, where ranks looked at them again after the forward, and who wrote them since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.analysis.replicas.aligned_steps import ByRank, differing_names, integrity_of
from ddpdoctor.analysis.replicas.flipped_bits import by_hardware, shape_of, single_bits, width_of
from ddpdoctor.analysis.replicas.step_callsites import own_lines
from ddpdoctor.evidence.training_trace import Track


def weights_given(seen: ByRank, tracks: Mapping[int, Track]) -> dict[int, Mapping[str, str]]:
    """The fingerprints of the weights that the optimizer gets, by name: those at the forward where nobody looked again."""
    return {
        rank: one.integrity.given if one.integrity and one.integrity.given else tracks[rank].tables[one.weights].digests
        for rank, one in seen.items()
    }


def given_is_known(seen: ByRank) -> bool:
    """Whether all ranks have looked at the weights right before the step."""
    return all(one.integrity is not None and one.integrity.given for one in seen.values())


def given_differently(seen: ByRank, tracks: Mapping[int, Track]) -> tuple[str, ...]:
    """The parameters that differ when the optimizer gets them; none where some ranks did not look, and may have the same.

    A rank that has not looked has those of its forward only if no code wrote them unseen: through `.data` PyTorch counts no
    write. So it is where operations wrote as often on all ranks, and others looked for another reason.
    """
    looked = [one.integrity is not None and bool(one.integrity.given) for one in seen.values()]
    if any(looked) and not all(looked) and not written_unequally(seen):
        return ()
    return differing_names(weights_given(seen, tracks).values())


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
    if integrity_of(seen) is None or written_unequally(seen) or len(writers) == len(seen):
        return False
    parities = {rank: one.integrity.given_parities.get(names[0]) for rank, one in seen.items() if one.integrity}
    known = [one for one in parities.values() if one is not None]
    if len(names) > 1 or len(known) < len(seen):
        return False
    width = width_of(tracks, names[0])
    shape = shape_of(seen, tracks, names[0])
    masks = [one ^ known[0] for one in known if one != known[0]]
    if own_lines(seen, "given weights", writers) and not single_bits(masks):
        return False
    return all(by_hardware(mask, width, shape) for mask in masks)


def written_unequally(seen: ByRank) -> bool:
    """Whether operations wrote the weights more often on some ranks, from the forward to the end of the step."""
    return len({one.integrity.end - one.integrity.begin for one in seen.values() if one.integrity is not None}) > 1
