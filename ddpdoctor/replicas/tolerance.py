"""Whether replicas of a tensor lie within a tolerance: only for those who ask, as the whole tensor must travel for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ddpdoctor.replicas.allgather import GroupExchange
from ddpdoctor.replicas.tensor_diff import ElementDifferences

PIECE_BYTES = 1 << 20  # of every rank at a time


class ToleranceCounter:
    """Counts the tensors that differ by no more than `tolerance`, and keeps the largest such difference."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.count = 0
        self.largest = 0.0

    def admits(self, tensor: Tensor, sides: Sequence[Sequence[int]], wire: GroupExchange) -> bool:
        """Whether the replicas of `tensor`, of one kind everywhere, are within it; entered by all ranks of `wire`."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return False
        gap = _gap(tensor, [wire.ranks.index(side[0]) for side in sides], wire)
        if gap > self.tolerance:
            return False
        self.count, self.largest = self.count + 1, max(self.largest, gap)
        return True


def _gap(tensor: Tensor, places: Sequence[int], wire: GroupExchange) -> float:
    """The largest difference of any element between the ranks at `places`."""
    spread = ElementDifferences(tensor.shape)
    length = PIECE_BYTES // tensor.element_size()
    for start in range(0, tensor.numel(), length):
        count = min(length, tensor.numel() - start)
        words = -(-count * tensor.element_size() // 8)

        def piece(start: int = start, count: int = count, words: int = words) -> Tensor:
            flat = tensor.detach().contiguous().view(-1)[start : start + count].cpu().contiguous().view(torch.uint8)
            return torch.cat([flat, flat.new_zeros(8 * words - len(flat))]).view(torch.int64)

        _, everyone = wire.agree(piece, lambda found: found, words)
        rows = [everyone[place].contiguous().view(torch.uint8) for place in places]
        spread.add(start, [row[: count * tensor.element_size()].clone().view(tensor.dtype) for row in rows])
    return spread.gap
