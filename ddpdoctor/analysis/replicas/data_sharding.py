"""Which samples the ranks trained and evaluated on, and whether each got its own part of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.aligned_steps import step_of
from ddpdoctor.analysis.replicas.comparison import sides_of
from ddpdoctor.analysis.replicas.divergence import Divergence
from ddpdoctor.analysis.replicas.divergences.data import (
    PartialMetric,
    SameInputs,
    SameOrder,
    SameSamples,
    SamplesOverlap,
    UnevenBatches,
)
from ddpdoctor.analysis.replicas.step_callsites import lines_at
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.training_trace import EpochSeen, Track
from ddpdoctor.grouping import grouped

ENOUGH_STEPS = 3  # inputs that are equal on all ranks in three steps are no chance


def data_divergences(tracks: Mapping[int, Track], steps: Sequence[Mapping[int, StepSeen]]) -> Iterator[Divergence]:
    """What is wrong with the ranks' shares of the data."""
    if len(tracks) < 2:
        return
    epochs = list(_epochs(tracks))
    shared = next((found for seen in epochs if not _own_data(seen, steps) and (found := _shares(seen))), None)
    if shared is not None:
        yield shared
    elif (same := _same_inputs(steps)) is not None:
        yield same
    if (repeated := _same_order(epochs)) is not None:
        yield repeated
    if (uneven := _uneven(tracks, steps)) is not None:
        yield uneven
    if (metric := _metric(tracks)) is not None:
        yield metric


def _epochs(tracks: Mapping[int, Track]) -> Iterator[dict[int, EpochSeen]]:
    """The training epochs of known indices, each rank's beside the others'."""
    by_rank = {
        rank: {
            (epoch.loader, epoch.number): epoch for epoch in track.epochs if epoch.indices is not None and epoch.batches
        }
        for rank, track in tracks.items()
    }
    for key in sorted(set.intersection(*(set(epochs) for epochs in by_rank.values()))):
        yield {rank: epochs[key] for rank, epochs in by_rank.items()}


def _own_data(seen: Mapping[int, EpochSeen], steps: Sequence[Mapping[int, StepSeen]]) -> bool:
    """Whether each rank has a data set of its own, of which it may draw what it likes: files or rows that only it was given.

    Where nothing is known of the data sets, equal indices that never give equal inputs are taken for that, too. A sampler
    that divides a data set is made for one that all ranks share.
    """
    if any("Distributed" in epoch.sampler for epoch in seen.values()):
        return False
    inputs = [{one.input for one in step.values()} for step in steps if all(one.input for one in step.values())]
    if any(len(group) == 1 for group in inputs):
        return False
    kept = {epoch.data for epoch in seen.values()}
    if len(kept) > 1 or len({epoch.length for epoch in seen.values()}) > 1:
        return True
    return kept == {""} and bool(inputs) and len({epoch.indices for epoch in seen.values()}) == 1


def _shares(seen: Mapping[int, EpochSeen]) -> SameSamples | SamplesOverlap | None:
    lists = [epoch.indices or () for epoch in seen.values()]
    ranks = tuple(sorted(seen))
    first = next(iter(seen.values()))
    lines = {rank: epoch.line for rank, epoch in seen.items() if epoch.line is not None}
    shares = {rank: epoch.share for rank, epoch in seen.items() if epoch.share is not None}
    if len(shares) < len(seen):
        shares = {}
    drawn, unique = sum(map(len, lists)), len(set().union(*lists))
    if len(set(lists)) == 1:
        return SameSamples(
            step=0, ranks=ranks, lines=lines, epoch=first.number, drawn=drawn, unique=unique, shares=shares
        )
    within = sum(len(indices) - len(set(indices)) for indices in lists)
    if within > len(ranks):  # sampling with replacement draws one sample twice on purpose
        return None
    biggest = max(-(-len(epoch.indices or ()) // max(epoch.batches, 1)) for epoch in seen.values())
    finished = all(epoch.finished for epoch in seen.values())
    missing = first.length - unique if first.length is not None and finished else 0
    padding = len(ranks) - 1
    padded = drawn - unique <= padding or _only_the_last_batches_repeat(lists, biggest)
    if padded and missing <= max(padding, len(ranks) * biggest):
        return None
    strangers = _strangers(seen, padding)
    return SamplesOverlap(
        step=0, ranks=strangers or ranks, lines=lines, without_them=bool(strangers), epoch=first.number, drawn=drawn,
        unique=unique, missing=missing, length=first.length or 0, shares=shares,
        draws={rank: epoch.draws for rank, epoch in seen.items() if epoch.draws is not None and not shares},
    )  # fmt: skip


def _only_the_last_batches_repeat(lists: Sequence[Sequence[int]], biggest: int) -> bool:
    """Whether no sample is drawn twice but by some rank's last batch: samplers of whole batches pad with whole batches."""
    before = [indices[:-biggest] for indices in lists]
    drawn, all_drawn = sum(map(len, before)), sum(map(len, lists))
    return 2 * drawn >= all_drawn and drawn == len(set().union(*before))


def _strangers(seen: Mapping[int, EpochSeen], padding: int) -> tuple[int, ...]:
    """The ranks without any one of which the others' parts would not overlap; none where that is so for all or for nobody."""
    found = []
    for rank in seen:
        others = [epoch.indices or () for other, epoch in seen.items() if other != rank]
        if sum(map(len, others)) - len(set().union(*others)) <= padding:
            found.append(rank)
    return tuple(sorted(found)) if len(found) < len(seen) else ()


def _same_inputs(steps: Sequence[Mapping[int, StepSeen]]) -> SameInputs | None:
    """The models of ranks were given the same bytes, in every audited step: of all ranks, or of some.

    Some may have to share their inputs, as ranks that hold parts of one model do. They count where DDP averages the gradients of
    all ranks, so that all end with the same ones.
    """
    if len(steps) < ENOUGH_STEPS or any(one.input is None for seen in steps for one in seen.values()):
        return None
    by_inputs = grouped((tuple(seen[rank].input for seen in steps), rank) for rank in sorted(steps[0]))
    groups = tuple(tuple(ranks) for ranks in by_inputs.values() if len(ranks) > 1)
    if not groups or (len(by_inputs) > 1 and not all(map(_averaged_by_all, steps))):
        return None
    alike = tuple(sorted(rank for group in groups for rank in group))
    lines = {rank: line for rank, line in lines_at(steps[0], "forward").items() if rank in alike}
    return SameInputs(step=0, ranks=alike, steps=len(steps), groups=groups, lines=lines)


def _averaged_by_all(seen: Mapping[int, StepSeen]) -> bool:
    """Whether the wrappers of all ranks reduced in this step, and left every rank with the same gradients."""
    gradients = {tuple(sorted((name, one.digest) for name, one in step.gradients.items())) for step in seen.values()}
    return len(gradients) == 1 and gradients != {()} and all(step.synchronised for step in seen.values())


def _same_order(epochs: Sequence[Mapping[int, EpochSeen]]) -> SameOrder | None:
    last: dict[int, Mapping[int, EpochSeen]] = {}
    for seen in epochs:
        first = next(iter(seen.values()))
        before = last.get(first.loader)
        last[first.loader] = seen
        if before is None or not all(_shuffled(epoch.indices or ()) for epoch in seen.values()):
            continue
        if all(_begins_alike(before[rank].indices or (), epoch.indices or ()) for rank, epoch in seen.items()):
            shares = [epoch.share for each in (before, seen) for epoch in each.values()]
            at = {share.epoch if share is not None else None for share in shares}
            return SameOrder(
                step=0, ranks=tuple(sorted(seen)), epoch=first.number, before=next(iter(before.values())).number,
                sampler=first.sampler,
                lines={rank: epoch.line for rank, epoch in seen.items() if epoch.line is not None},
                told=at.pop() if len(at) == 1 else None,
                made={rank: made for rank, epoch in seen.items() if epoch.share and (made := epoch.share.made) is not None},
                told_at={rank: line for rank, epoch in seen.items() if epoch.share and (line := epoch.share.told) is not None},
            )  # fmt: skip
    return None


def _shuffled(indices: Sequence[int]) -> bool:
    """Whether the order is neither ascending nor that of a few ascending runs (padding begins again at the front)."""
    return sum(b < a for a, b in pairwise(indices)) > max(2, len(indices) // 10)


def _begins_alike(a: Sequence[int], b: Sequence[int]) -> bool:
    length = min(len(a), len(b))
    return length > 3 and a[:length] == b[:length]


def _uneven(tracks: Mapping[int, Track], steps: Sequence[Mapping[int, StepSeen]]) -> UnevenBatches | None:
    uneven = [
        seen
        for seen in steps
        if len({one.batch for one in seen.values()}) > 1 and len({one.wrapped for one in seen.values()}) == 1
    ]
    if not uneven:
        return None
    ends = {
        rank: {(made.number, made.batches) for made in track.epochs if made.finished} for rank, track in tracks.items()
    }
    last = sum(all(one.position in ends[rank] for rank, one in seen.items()) for seen in uneven)  # batches of an epoch
    sizes = {rank: one.batch for rank, one in uneven[0].items()}
    decided = vote(sizes)
    return UnevenBatches(
        step=step_of(uneven[0]), ranks=decided.minority, tied=decided.tied,
        sides=sides_of(sizes),
        steps=len(uneven), last=last, audited=len(steps), lines=lines_at(uneven[0], "forward"),
    )  # fmt: skip


def _metric(tracks: Mapping[int, Track]) -> PartialMetric | None:
    """Every rank evaluates other samples, and no collective follows before the training goes on."""
    for number in range(min(len(track.evaluations) for track in tracks.values())):
        seen = {rank: track.evaluations[number] for rank, track in tracks.items()}
        if any(one.collectives for one in seen.values()) or len({one.input for one in seen.values()}) < len(seen):
            continue
        return PartialMetric(
            step=step_of(seen), ranks=tuple(sorted(seen)),
            sides=tuple(Side(ranks=(rank,), says=f"{one.samples} samples") for rank, one in sorted(seen.items())),
            lines={rank: one.line for rank, one in seen.items() if one.line is not None},
        )  # fmt: skip
    return None
