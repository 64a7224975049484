"""The exclusive or of all 64-bit words of a tensor: it tells which bits differ where two copies differ in one element.

A fingerprint tells that two copies differ, not how. The parities of two copies that differ in one bit differ in that bit;
where a whole layer was written, about half of all bits of the parities differ.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
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
        return tail ^ int(np.bitwise_xor.reduce(data[:whole].numpy().view(np.uint64)))
    words = data[:whole] if data.storage_offset() % WORD == 0 else data[:whole].clone()
    return tail ^ (int(torch.hash_tensor(words.view(torch.int64)).view(torch.int64)) & ((1 << 64) - 1))
