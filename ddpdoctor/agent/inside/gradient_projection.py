"""One number for a gradient that commutes with averaging: its dot product with fixed random signs.

The mean over the ranks of the local gradients' projections is the projection of their mean, up to rounding: whether a
gradient was reduced, by which factor, and whether it was changed afterwards shows without sending gradients around.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from .fingerprint import weights

WIDTH = 4096
PERIOD = (
    64  # elements whose signs repeat, each time as they are or all turned round: copies need no sign for each element
)


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
    count, device = flat.numel(), str(flat.device)
    signs, rows = _signs(device, flat.dtype), count // WIDTH
    if count < WIDTH:
        return torch.dot(flat, signs[:count])
    body = flat if count == rows * WIDTH else flat[: rows * WIDTH]
    whole = torch.dot(body.view(rows, WIDTH).mv(signs), _heights(rows, device, flat.dtype))
    if body is flat:
        return whole
    tail = flat[rows * WIDTH :]
    return whole + torch.dot(tail, signs[: tail.numel()])


def signs_of(count: int, like: Tensor) -> Tensor:
    """The signs of the first `count` elements of a gradient on the device and of the dtype of `like`."""
    device, dtype = str(like.device), like.dtype
    signs, rows = _signs(device, dtype), count // WIDTH
    if count < WIDTH:
        return signs[:count]
    return torch.cat([torch.outer(_heights(rows, device, dtype), signs).flatten(), signs[: count - rows * WIDTH]])


def signs_of_period(like: Tensor) -> Tensor:
    """The signs of the first `PERIOD` elements of a gradient on the device and of the dtype of `like`."""
    return _signs(str(like.device), like.dtype)[:PERIOD]


def turns_of(count: int) -> Tensor:
    """Of each period of a gradient of `count` elements -1 where all signs are turned round, else 1; in float64 on the CPU."""
    signs = signs_of(count, torch.empty(0, dtype=torch.float64))
    return signs[::PERIOD] * signs[:1]


def sums_of_parts(rows: Tensor, firsts: Any) -> Tensor:  # noqa: ANN401 - an array
    """The sum of each part of `rows`, float64 in CPU memory; `firsts` are the places where parts begin, in order."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):  # of gradients that are not finite
        return torch.from_numpy(np.add.reduceat(rows.numpy(), firsts))


@functools.cache
def _signs(device: str, dtype: torch.dtype) -> Tensor:
    """Those of the first `WIDTH` elements."""
    return torch.outer(_random(WIDTH // PERIOD, "low"), _random(PERIOD, "second")).flatten().to(device, dtype)


@functools.lru_cache(maxsize=256)
def _heights(rows: int, device: str, dtype: torch.dtype) -> Tensor:
    """By what the signs of each further `WIDTH` elements are multiplied."""
    return _random(rows, "first").to(device, dtype)


def _random(count: int, series: str) -> Tensor:
    return torch.where(weights(series, count) < 0, -1.0, 1.0)
