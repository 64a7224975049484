"""Finds which elements of one tensor differ between ranks, by a tree of hashes: a few KiB a rank, whatever its size.

A leaf is the hash of 64 words (512 bytes), a node that of 1024 children. From the top, every rank gathers the children of
at most three nodes that differ; at the bottom the words themselves are gathered and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from ddpdoctor.agent.inside.tensors.fingerprint import as_bytes, row_hashes, weights
from ddpdoctor.replicas.allgather import GroupExchange

LEAF_WORDS = 64
FAN = 1024
FOLLOWED = 3  # nodes a level: 3 x 8 KiB of hashes and 3 x 512 bytes of words at most


@dataclass(frozen=True)
class TensorDifference:
    """Where a tensor differs between ranks."""

    words: Tensor
    """The numbers of the 8-byte words that differ, in storage order."""
    values: Tensor
    """Each rank's words there, of shape (ranks, words)."""
    complete: bool
    """Whether these are all the words that differ."""
    blocks: int
    """How many blocks contain some of them, as far as they were counted."""
    block_bytes: int
    """The size of such a block."""


def locate(
    tensor: Tensor | None, wire: GroupExchange, *, size: int | None = None, among: Sequence[int] | None = None
) -> TensorDifference:
    """The words in which `tensor`, of one size on all ranks, differs; entered by all ranks of `wire`.

    Where only the ranks at the positions `among` hold the tensor, of `size` bytes, the others give None.

    Raises:
        PeerFailedError: a rank could not compute its hashes.
    """
    rows = list(range(len(wire.ranks))) if among is None else list(among)
    if size is None:
        size = tensor.numel() * tensor.element_size() if tensor is not None else 0
    hashes = _Nothing() if tensor is None else _Hashes(tensor)
    nodes = torch.zeros(1, dtype=torch.int64)
    complete, blocks, block_bytes = True, 1, size
    for level in range(_depth(size) - 1, -1, -1):
        parents = nodes
        _, everyone = wire.agree(partial(hashes.children, level, parents), _as_they_are, FAN * len(parents))
        everyone = everyone[rows]
        bad = (everyone != everyone[0]).any(0).nonzero().flatten()
        blocks, block_bytes = len(bad), 8 * LEAF_WORDS * FAN**level
        complete = complete and len(bad) <= FOLLOWED
        bad = bad[:FOLLOWED]
        nodes = parents[bad // FAN] * FAN + bad % FAN
    words = (nodes[:, None] * LEAF_WORDS + torch.arange(LEAF_WORDS)).flatten()
    _, everyone = wire.agree(partial(hashes.words, nodes), _as_they_are, len(words))
    everyone = everyone[rows]
    bad = (everyone != everyone[0]).any(0).nonzero().flatten()
    return TensorDifference(words[bad], everyone[:, bad], complete, blocks, block_bytes)


def _depth(size: int) -> int:
    """Levels of hashes over `size` bytes: at least one."""
    leaves, depth = -(-size // (8 * LEAF_WORDS)), 1
    while leaves > FAN:
        leaves, depth = -(-leaves // FAN), depth + 1
    return depth


class _Nothing:
    """Stands for the hashes on a rank that does not hold the tensor."""

    def children(self, _level: int, parents: Tensor) -> Tensor:
        return torch.zeros(FAN * len(parents), dtype=torch.int64)

    def words(self, leaves: Tensor) -> Tensor:
        return torch.zeros(LEAF_WORDS * len(leaves), dtype=torch.int64)


class _Hashes:
    """The hashes over one tensor's bytes, made when they are first asked for."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def children(self, level: int, parents: Tensor) -> Tensor:
        """The hashes at `level` (0: the leaves) below each of the nodes `parents`; zeros beyond the end."""
        return torch.cat([_slice(self._levels[level], int(parent) * FAN, FAN) for parent in parents])

    def words(self, leaves: Tensor) -> Tensor:
        """The words of these leaves; zeros beyond the end."""
        parts = []
        for leaf in leaves.tolist():
            raw = torch.zeros(8 * LEAF_WORDS, dtype=torch.uint8)
            piece = self._data[leaf * 8 * LEAF_WORDS : (leaf + 1) * 8 * LEAF_WORDS]
            raw[: piece.numel()] = piece.cpu()
            parts.append(raw.view(torch.int64))
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    @cached_property
    def _data(self) -> Tensor:
        return as_bytes(self._tensor)

    @cached_property
    def _levels(self) -> list[Tensor]:
        data = self._data
        full = data.numel() // (8 * LEAF_WORDS) * 8 * LEAF_WORDS
        body = data[:full] if data.storage_offset() % 8 == 0 else data[:full].clone()
        parts = [row_hashes(body.view(torch.int64).view(-1, LEAF_WORDS))] if full else []
        if data.numel() > full:
            rest = torch.zeros(8 * LEAF_WORDS, dtype=torch.uint8, device=data.device)
            rest[: data.numel() - full] = data[full:]
            parts.append(row_hashes(rest.view(torch.int64).view(1, LEAF_WORDS)))
        levels = [torch.cat(parts).cpu()]
        while len(levels[-1]) > FAN:
            below = levels[-1]
            rows = _slice(below, 0, -(-len(below) // FAN) * FAN).view(-1, FAN)
            levels.append(rows.mv(weights("first", FAN) | 1))
        return levels


def _as_they_are(words: Tensor) -> Tensor:
    return words


def _slice(hashes: Tensor, start: int, count: int) -> Tensor:
    """`count` hashes from `start`, zeros beyond the end."""
    piece = hashes[start : start + count]
    return torch.cat([piece, piece.new_zeros(count - len(piece))])
