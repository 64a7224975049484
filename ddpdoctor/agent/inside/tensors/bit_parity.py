"""The exclusive or of all 64-bit words of a tensor: it tells which bits differ where two copies differ in one element.

A fingerprint tells that two copies differ, not how. The parities of two copies that differ in one bit differ in that bit;
where a whole layer was written, about half of all bits of the parities differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .fingerprint import as_bytes
from .readable_tensors import memory

WORD = 8  # bytes
STACKED_ELEMENTS = 1 << 15  # tensors of one size up to this are copied side by side: one operation for hundreds


def parities(tensors: Sequence[Tensor]) -> str:
    """16 hexadecimal digits for each tensor, one after the other; the last word is filled with zeros."""
    alike: dict[tuple[torch.dtype, int, torch.device], list[int]] = {}
    found = [0] * len(tensors)
    for place, tensor in enumerate(tensors):
        count = tensor.numel()
        if (
            tensor.layout is torch.strided
            and not tensor.is_complex()
            and not tensor.is_meta
            and 0 < count <= STACKED_ELEMENTS
        ):
            alike.setdefault((tensor.dtype, count, tensor.device), []).append(place)
        else:
            found[place] = parity(tensor)
    for places in alike.values():
        rows = torch.stack([tensors[place].detach().reshape(-1) for place in places])
        for place, one in zip(places, _of_rows(rows.view(torch.uint8)), strict=True):
            found[place] = one
    return as_digits(found)


def parity(tensor: Tensor) -> int:
    """The parity of one tensor."""
    return _of_rows(as_bytes(tensor).unsqueeze(0))[0]


def parity_of_memory(data: Any) -> int:  # noqa: ANN401 - a buffer
    """The parity of the words in `data`; the last is filled with zeros."""
    import numpy as np

    if len(data) % WORD:
        data = bytes(data) + bytes(-len(data) % WORD)
    return int(np.bitwise_xor.reduce(np.frombuffer(data, dtype=np.uint64)))


def elements_of_memory(data: Any, size: int, places: Any) -> bytes:  # noqa: ANN401 - a buffer
    """The bytes of the elements at `places` of those of `size` bytes (1, 2, 4 or 8) in `data`."""
    import numpy as np

    found: bytes = np.frombuffer(data, dtype=f"u{size}").take(places).tobytes()
    return found


def parities_of_parts(words: Tensor, firsts: Sequence[int]) -> list[int]:
    """The parity of each part of `words`, int64 in CPU memory; `firsts` are the places where parts begin, in order."""
    import numpy as np

    found: list[int] = np.bitwise_xor.reduceat(words.numpy().view(np.uint64), firsts).tolist()
    return found


def as_digits(found: Sequence[int]) -> str:
    """Parities as text: 16 hexadecimal digits for each."""
    import numpy as np

    return np.array(found, dtype=">u8").tobytes().hex()


def _of_rows(data: Tensor) -> list[int]:
    """The parity of each row of bytes."""
    short = -data.shape[1] % WORD
    if short or data.storage_offset() % WORD:
        data = torch.nn.functional.pad(data, (0, short)) if short else data.clone()
    words = data.view(torch.int64)
    if words.shape[1] == 0:
        return [0] * len(words)
    if words.device.type == "cpu":
        import numpy as np

        rows = np.frombuffer(memory(words), dtype=np.uint64).reshape(words.shape)
        parities_of_rows: list[int] = np.bitwise_xor.reduce(rows, axis=1).tolist()
        return parities_of_rows
    while words.shape[1] > 1:
        half = words.shape[1] // 2
        odd = words[:, 2 * half :]
        words = words[:, :half] ^ words[:, half : 2 * half]
        words[:, : odd.shape[1]] ^= odd
    return [word & ((1 << 64) - 1) for word in words[:, 0].tolist()]
