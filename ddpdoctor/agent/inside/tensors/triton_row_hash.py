"""Row hashes on a GPU: one Triton kernel that reads the words once, or plain torch operations where Triton is not there."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

HALF = (1 << 32) - 1
CHUNK_WORDS = 1 << 24  # 128 MiB of int64: bounds the temporaries of the plain path


def row_hashes(words: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """sum_i (low_i * x_i + high_i * (x_i >> 32)) mod 2^64 of each row of `words`, [rows, width] in GPU memory.

    The shift brings zeros in.
    """
    kernel = _kernel()
    if kernel is None or words.shape[1] & (words.shape[1] - 1):
        return plain_row_hashes(words, low, high)
    hashes = torch.empty(words.shape[0], dtype=torch.int64, device=words.device)
    with torch.cuda.device(words.device):
        kernel[(words.shape[0],)](words, low, high, hashes, words.shape[1])
    return hashes


def plain_row_hashes(words: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The same by torch operations that exist for int64 on every device (matrix products do not exist on CUDA)."""
    rows = max(1, CHUNK_WORDS // words.shape[1])
    return torch.cat([(chunk * low + (chunk >> 32 & HALF) * high).sum(1) for chunk in words.split(rows)])


@functools.cache
def _kernel() -> Any:  # noqa: ANN401 - a Triton function, or None where Triton is not installed
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def kernel(words, low, high, hashes, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N803
        row = tl.program_id(0)
        column = tl.arange(0, WIDTH)
        x = tl.load(words + row.to(tl.int64) * WIDTH + column)
        products = tl.load(low + column) * x + tl.load(high + column) * (x >> 32 & 0xFFFFFFFF)
        tl.store(hashes + row, tl.sum(products))

    return kernel
