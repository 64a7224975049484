"""A 128-bit fingerprint of every tensor in a list, from its bytes, at memory bandwidth.

`linear`, the default, needs torch only and gives the same bits on CPU and GPU. A tensor's bytes are int64 words, in rows
of 1024 (the last padded with zeros); a row's hash is

    h = sum_i (W_i * x_i + U_i * (x_i >> 32))  mod 2^64      (>> shifts zeros in)

and the rows are combined by two lanes of random weights, sum_r A_r * h_r and sum_r B_r * h_r. One product alone would lose
differences that sit in high bits (a sign bit of every second float is bit 63: only the parity of W_i is left of it). With
both x and x >> 32 some differing term is odd after at most 31 halvings, so two different rows collide with probability
at most 2^-33 over the weights, and two different tensors in both lanes with at most 2^-33 + 2^-66 for a single differing
row; differences without such structure collide with about 2^-128. The weights are fixed: they guard against accidents, not
against someone who computes a collision.

`xxh3` is the 128-bit XXH3 of the `xxhash` package, for tensors in CPU memory: one pass at memory bandwidth.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal

import torch
from torch import Tensor

from . import triton_row_hash
from .readable_tensors import memory, stand_ins

Method = Literal["linear", "xxh3"]

ROW = 1024  # words a row: 8 KiB, so that the weights of a row stay in the L1 cache
STAGED_ROWS = 32  # a tensor below 256 KiB is copied beside the others: one operation for hundreds of small tensors
HALF = (1 << 32) - 1
DIGEST_BYTES = 16

_SEEDS = {
    "low": 0x243F6A8885A308D3,
    "high": 0x13198A2E03707344,
    "first": 0xA4093822299F31D0,
    "second": 0x082EFA98EC4E6C89,
}


def best_method() -> Method:
    """`xxh3` where the package `xxhash` is installed, else `linear`."""
    return "linear" if _xxhash() is None else "xxh3"


def digests(tensors: Sequence[Tensor], method: Method = "linear") -> Tensor:
    """The fingerprints, as an int64 tensor of shape [len(tensors), 2] on the CPU, in the order given.

    They depend on the bytes alone, in storage order, and not on dtype, shape or device. `xxh3` applies to tensors in CPU
    memory only, and to none where a rank lacks the package: ranks must agree on the method first.
    """
    with torch.no_grad():
        instead = stand_ins(tensors)
        flat = [as_bytes(instead.get(place, tensor)) for place, tensor in enumerate(tensors)]
        by_device: dict[torch.device, list[int]] = {}
        for number, data in enumerate(flat):
            by_device.setdefault(data.device, []).append(number)
        result = torch.zeros(len(flat), 2, dtype=torch.int64, device="cpu")
        for device, numbers in by_device.items():
            group = [flat[number] for number in numbers]
            hashed = method == "xxh3" and device.type == "cpu"
            found = table(xxh3(map(memory, group))) if hashed else _linear(group, device).cpu()
            if len(group) == len(flat):
                return found
            result[numbers] = found
        return result


def combined(table: Tensor | bytes, salt: bytes = b"") -> bytes:
    """One digest of 16 bytes over a table of fingerprints, or over the bytes of one."""
    data = table if isinstance(table, bytes) else table.numpy().tobytes()
    return blake2b(salt + data, digest_size=DIGEST_BYTES).digest()


def first_halves(table: bytes) -> str:
    """The first half of each fingerprint in the bytes of a table, 16 digits each."""
    halves = bytearray(len(table) // 2)
    for place in range(8):  # a digit of the highest byte comes first: slices of bytes need no array, and no cold code
        halves[place::8] = table[7 - place :: 16]
    return halves.hex()


def as_bytes(tensor: Tensor) -> Tensor:
    """The tensor's elements as a flat uint8 tensor in storage order; no copy where they lie densely in memory.

    Sparse tensors give their indices and values. Tensors without data (meta) give no bytes.
    """
    tensor = tensor.detach()
    if tensor.is_meta:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    if tensor.layout is not torch.strided:
        return torch.cat([as_bytes(part) for part in _parts(tensor)])
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()) and tensor.numel():
        return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
    flat = tensor.as_strided((tensor.numel(),), (1,)) if dense else tensor.contiguous().view(-1)
    return flat.view(torch.uint8)


def xxh3(data: Iterable[Any]) -> list[bytes]:
    """The 128 bits of XXH3 of each of `data`, which are buffers."""
    return [*map(_xxhash().xxh3_128_digest, data)]


def table(fingerprints: Iterable[bytes]) -> Tensor:
    """Fingerprints of 128 bits as an int64 tensor of shape [number, 2]."""
    data = bytearray(b"".join(fingerprints))
    return (
        torch.frombuffer(data, dtype=torch.int64).view(-1, 2)
        if data
        else torch.zeros(0, 2, dtype=torch.int64, device="cpu")
    )


def row_hashes(words: Tensor) -> Tensor:
    """The hash h of each row of `words`, an int64 tensor of shape [rows, width]; see the module's formula.

    On a CPU the upper halves are not shifted out: the same bytes are read again as words that begin half a word later,
    y_i = (x_i >> 32) + 2^32 * x_(i+1). What U_i * y_i holds of the next word is taken off that word's own weight.
    NumPy's product takes 0.7 of PyTorch's time, but copies words first that do not begin at a multiple of 8 bytes.
    """
    width = words.shape[1]
    if words.is_cuda:
        return triton_row_hash.row_hashes(
            words, weights("low", width, words.device), weights("high", width, words.device)
        )
    import numpy as np

    own, high, last = _split_weights(width)
    hashes = (words[:, -1] >> 32).bitwise_and_(HALF).mul_(last)
    aligned = np.frombuffer(memory(words), dtype=np.int64).reshape(words.shape)
    hashes += torch.from_numpy(np.einsum("ij,j->i", aligned, own.numpy()))
    return hashes.addmv_(_half_a_word_later(words), high)


def weights(name: str, count: int, device: torch.device | str = "cpu") -> Tensor:
    """The first `count` fixed random int64 weights of a series: splitmix64, the same on every machine and in every version."""
    return _weights(name, 1 << max(10, (count - 1).bit_length()), str(device))[:count]


def _parts(tensor: Tensor) -> list[Tensor]:
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]  # noqa: SLF001 - the public pair wants a coalesced tensor
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor.to_dense()]


def _linear(flat: Sequence[Tensor], device: torch.device) -> Tensor:
    """Row hashes of all tensors, then the two lanes of each; on `device` from the first operation to the last."""
    hashes: list[Tensor] = []
    spans: list[tuple[int, int, int]] = []  # whose rows come next in `hashes`, from which of its rows on, how many
    staged: list[tuple[int, int, Tensor]] = []
    for number, data in enumerate(flat):
        full = data.numel() // (8 * ROW)
        if full < STAGED_ROWS or data.storage_offset() % 8:
            full = 0
        else:
            hashes.append(row_hashes(data[: full * 8 * ROW].view(torch.int64).view(full, ROW)))
            spans.append((number, 0, full))
        if data.numel() > full * 8 * ROW:
            staged.append((number, full, data[full * 8 * ROW :]))
    if staged:
        hashes.append(row_hashes(_stage([rest for _, _, rest in staged], device)))
        spans += [(number, first, _rows(rest)) for number, first, rest in staged]
    lanes = torch.zeros(len(flat), 2, dtype=torch.int64, device=device)
    if not hashes:
        return lanes
    together = torch.cat(hashes)
    owners, firsts, repeats = torch.tensor(spans, device="cpu").unbind(1)
    owner = torch.repeat_interleave(owners, repeats).to(device)
    starts = firsts - (torch.cumsum(repeats, 0) - repeats)
    row = (torch.repeat_interleave(starts, repeats) + torch.arange(int(repeats.sum()), device="cpu")).to(device)
    longest = max(first + count for _, first, count in spans)
    for lane, name in enumerate(("first", "second")):
        weighted = together * weights(name, longest, device)[row]
        lanes[:, lane] = torch.zeros(len(flat), dtype=torch.int64, device=device).index_add_(0, owner, weighted)
    return lanes


def _stage(pieces: Sequence[Tensor], device: torch.device) -> Tensor:
    """The pieces one after another, each padded with zeros to whole rows."""
    staging = torch.zeros(sum(map(_rows, pieces)) * 8 * ROW, dtype=torch.uint8, device=device)
    targets, start = [], 0
    for piece in pieces:
        targets.append(staging[start : start + piece.numel()])
        start += _rows(piece) * 8 * ROW
    torch._foreach_copy_(targets, list(pieces))
    return staging.view(torch.int64).view(-1, ROW)


def _rows(data: Tensor) -> int:
    return math.ceil(data.numel() / (8 * ROW))


@functools.cache
def _split_weights(width: int) -> tuple[Tensor, Tensor, int]:
    """The weights of the words, of the words read half a word later, and of the upper half that is left at the end."""
    own, high = weights("low", width).clone(), weights("high", width)
    own[1:] -= high[:-1] << 32
    return own, high[:-1], int(high[-1])


def _half_a_word_later(words: Tensor) -> Tensor:
    """The rows of `words` in CPU memory as rows of one word less, each word beginning 4 bytes later."""
    import numpy as np

    rows, width = words.shape
    later = torch.from_numpy(np.frombuffer(memory(words), dtype=np.uint8)[4:-4].view(np.int64))
    return later.as_strided((rows, width - 1), (width, 1))


@functools.cache
def _weights(name: str, count: int, device: str) -> Tensor:
    import numpy as np

    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(_SEEDS[name])
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return torch.from_numpy(z.view(np.int64)).to(device)


@functools.cache
def _xxhash() -> Any:  # noqa: ANN401 - a module, or None
    try:
        import xxhash
    except ImportError:
        return None
    return xxhash
