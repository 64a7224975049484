"""Which samples each rank takes at each step: a rank's share of an epoch, in batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.data import DistributedSampler


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """This rank's samples of one step."""

    indices: list[int]
    """Their places in the training set; empty where the rank has run out of samples."""
    everyone: int
    """How many samples all ranks take in this step together."""


def shares(samples: int, *, epoch: int, seed: int, rank: int, world_size: int, each: int, pad: bool) -> list[Share]:
    """The steps of an epoch; step k of all ranks together takes samples k*each*world_size and on of one permutation.

    With `pad` some samples are repeated at the end, so that ranks have equally many: DistributedSampler's way. Without
    it each sample is taken exactly once, and a rank may have one less in the last step, or none.
    """
    if pad:
        sampler: DistributedSampler[int] = DistributedSampler(range(samples), world_size, rank, seed=seed)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)  # without this the order of epoch 0 is repeated for ever
        mine = list(sampler)
        lengths = [len(mine)] * world_size
    else:
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
        mine = order[rank::world_size]
        lengths = [len(range(other, samples, world_size)) for other in range(world_size)]
    return [
        Share(indices=mine[begin : begin + each], everyone=sum(_within(length, begin, each) for length in lengths))
        for begin in range(0, max(lengths), each)
    ]


def _within(length: int, begin: int, each: int) -> int:
    return max(0, min(each, length - begin))
