"""Jobs that average their weights now and then (PostLocalSGD, LocalSGD, model averagers): where their replicas can be compared.

Between two averagings weights, gradients and optimizer state are each rank's own by design. Replicas are equal where the
weights have just been averaged, and before the ranks make their first step alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.evidence.audited_steps import Averaged, StepSeen
from ddpdoctor.evidence.training_trace import Track

LEAST_EQUAL = 0.5  # of the tensors, at one averaging: an averager may leave some out, by mistake too


def is_just_averaged(seen: ByRank) -> bool:
    """Whether all ranks have made no step since the weights were averaged, over all of them."""
    return all(_averaged_over(one.averaging, seen) for one in seen.values())


def has_reduced(seen: ByRank) -> bool:
    """Whether the weights were never averaged so far, and all ranks step with the same gradients: DDP reduces them, still."""
    gradients = [{name: one.digest for name, one in mine.gradients.items()} for mine in seen.values()]
    never = all(one.averaging is None for one in seen.values())
    return never and bool(gradients[0]) and all(one == gradients[0] for one in gradients)


def _averaged_over(averaging: Averaged | None, seen: ByRank) -> bool:
    if averaging is None or averaging.local:
        return False
    return averaging.members is None or seen.keys() <= averaging.members


def averages_weights(tracks: Mapping[int, Track], steps: Iterable[ByRank]) -> bool:
    """Whether the ranks make steps of their own between averagings that make most of their weights equal.

    Where they average among some ranks at a time alone, that need not make them equal anywhere.
    """
    alone = averaged = in_groups = False
    for seen in steps:
        averaged = averaged or _made_equal(tracks, seen)
        in_groups = in_groups or all(map(_in_group, seen.values()))
        alone = alone or len({one.after for one in seen.values()}) > 1
    return alone and (averaged or in_groups)


def comparable(tracks: Mapping[int, Track], steps: Sequence[ByRank]) -> list[ByRank]:
    """Of the audited steps those before whose forward the replicas must be equal: all, where weights are not averaged.

    Where they are, those right after an averaging, and the first ones as long as gradients were reduced. None where averagings
    in groups made them equal nowhere: they may be part of something else.
    """
    if not averages_weights(tracks, steps):
        return [*steps]
    if not any(_made_equal(tracks, seen) for seen in steps):
        return []
    return [*takewhile(has_reduced, steps), *filter(is_just_averaged, steps)]


def _made_equal(tracks: Mapping[int, Track], seen: ByRank) -> bool:
    return is_just_averaged(seen) and _equal_share(tracks, seen) >= LEAST_EQUAL


def _in_group(one: StepSeen) -> bool:
    return one.averaging is not None and one.averaging.members is not None


def _equal_share(tracks: Mapping[int, Track], seen: ByRank) -> float:
    tables = [tracks[rank].tables[one.weights].digests for rank, one in seen.items()]
    first = tables[0]
    equal = sum(len({table.get(name) for table in tables}) == 1 for name in first)
    return equal / len(first) if first else 0.0
