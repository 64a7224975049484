"""One number for a gradient that commutes with averaging: its dot product with fixed random signs.

The mean over the ranks of the local gradients' projections is the projection of their mean, up to rounding: whether a
gradient was reduced, by which factor, and whether it was changed afterwards shows without sending gradients around.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from .fingerprint import weights

WIDTH = 4096


def projection(gradient: Tensor) -> Tensor:
    """The projection, a tensor of no dimension on the gradient's device; NaN or infinite where the gradient holds such."""
    flat = gradient.detach()
    if flat.layout is not torch.strided:
        flat = flat.coalesce().values() if flat.layout is torch.sparse_coo else flat.to_dense()
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj())
    if flat.dtype not in {torch.float32, torch.float64}:
        flat = flat.float()
    flat = flat.reshape(-1)
    signs = _signs(WIDTH, str(flat.device), flat.dtype)
    if flat.numel() <= WIDTH:
        return torch.dot(flat, signs[: flat.numel()])
    rows = flat.numel() // WIDTH
    body = flat[: rows * WIDTH].view(rows, WIDTH).mv(signs)
    heights = _signs(1 << (rows - 1).bit_length(), str(flat.device), flat.dtype)
    whole = torch.dot(body, heights[:rows])
    tail = flat[rows * WIDTH :]
    return whole + torch.dot(tail, signs[: tail.numel()]) if tail.numel() else whole


def signs_of(count: int, like: Tensor) -> Tensor:
    """The signs of the first `count` elements of a gradient on the device and of the dtype of `like`."""
    signs = _signs(WIDTH, str(like.device), like.dtype)
    rows = count // WIDTH
    if count <= WIDTH:
        return signs[:count]
    heights = _signs(1 << (rows - 1).bit_length(), str(like.device), like.dtype)[:rows]
    return torch.cat([torch.outer(heights, signs).flatten(), signs[: count - rows * WIDTH]])


@functools.cache
def _signs(count: int, device: str, dtype: torch.dtype) -> Tensor:
    return torch.where(weights("second", count) < 0, -1.0, 1.0).to(device=device, dtype=dtype)
