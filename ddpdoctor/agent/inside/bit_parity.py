"""The exclusive or of all 64-bit words of a tensor: it tells which bits differ where two copies differ in one element.

A fingerprint tells that two copies differ, not how. The parities of two copies that differ in one bit differ in that bit;
where a whole layer was written, about half of all bits of the parities differ.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from .fingerprint import as_bytes

WORD = 8  # bytes


def parities(tensors: Iterable[Tensor]) -> str:
    """16 hexadecimal digits for each tensor, one after the other; the last word is filled with zeros."""
    return "".join(f"{_parity(as_bytes(tensor)):016x}" for tensor in tensors)


def _parity(data: Tensor) -> int:
    whole = data.numel() // WORD * WORD
    tail = int.from_bytes(bytes(data[whole:].tolist()), "little") if whole < data.numel() else 0
    if not whole:
        return tail
    if data.device.type == "cpu":
        import numpy as np

        return tail ^ int(np.bitwise_xor.reduce(data[:whole].numpy().view(np.uint64)))
    words = (data[:whole] if data.storage_offset() % WORD == 0 else data[:whole].clone()).view(torch.int64)
    while words.numel() > 1:
        half = words.numel() // 2
        odd = words[2 * half :]
        words = words[:half] ^ words[half : 2 * half]
        words[: odd.numel()] ^= odd
    return tail ^ int(words) & ((1 << 64) - 1)
