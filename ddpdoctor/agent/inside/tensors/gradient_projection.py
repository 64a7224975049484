"""One number for a gradient that commutes with averaging: its dot product with fixed random factors.

The mean over the ranks of the local gradients' projections is the projection of their mean, up to rounding: whether a
gradient was reduced, by which factor, and whether it was changed afterwards shows without sending gradients around.

The factor of an element is that of its place in a period of 64 elements, times one for the period, times one for each 4096
elements. All are of both signs and of many magnitudes: with signs alone, rows of a gradient that are equal or opposite, as
those of a head for two classes, often cancel out as a whole.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from .fingerprint import weights

WIDTH = 4096
PERIOD = 64  # elements whose factors repeat, each time times another one: copies need no factor for each element
STEPS = 1 << 10  # in which magnitudes go from 1/2 to 3/2: float32 holds the product of two factors


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
    factors, rows = _factors(device, flat.dtype), count // WIDTH
    if count < WIDTH:
        return torch.dot(flat, factors[:count])
    body = flat if count == rows * WIDTH else flat[: rows * WIDTH]
    whole = torch.dot(body.view(rows, WIDTH).mv(factors).double(), _heights(rows, device, torch.float64))
    if body is flat:
        return whole
    tail = flat[rows * WIDTH :]
    return whole + torch.dot(tail, factors[: tail.numel()])


def factors_of(count: int, like: Tensor) -> Tensor:
    """The factors of the first `count` elements of a gradient on the device and of the dtype of `like`."""
    return torch.outer(turns_of(count).to(like), factors_of_period(like)).flatten()[:count]


def factors_of_period(like: Tensor) -> Tensor:
    """The factors of elements in each `PERIOD` of a gradient, on the device and of the dtype of `like`."""
    return _period(str(like.device), like.dtype)


def turns_of(count: int) -> Tensor:
    """By what the factors in each period of a gradient of `count` elements are multiplied; in float64 on the CPU."""
    low, rows = _random(WIDTH // PERIOD, "low"), count // WIDTH
    rest = low[: -(-(count - rows * WIDTH) // PERIOD)]
    return torch.cat([torch.outer(_random(rows, "first"), low).flatten(), rest])


def sums_of_parts(rows: Tensor, firsts: Any) -> Tensor:  # noqa: ANN401 - an array
    """The sum of each part of `rows`, float64 in CPU memory; `firsts` are the places where parts begin, in order."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):  # of gradients that are not finite
        return torch.from_numpy(np.add.reduceat(rows.numpy(), firsts))


@functools.cache
def _period(device: str, dtype: torch.dtype) -> Tensor:
    return _random(PERIOD, "second").to(device, dtype)


@functools.cache
def _factors(device: str, dtype: torch.dtype) -> Tensor:
    """Those of the first `WIDTH` elements."""
    return torch.outer(_random(WIDTH // PERIOD, "low"), _random(PERIOD, "second")).flatten().to(device, dtype)


@functools.lru_cache(maxsize=256)
def _heights(rows: int, device: str, dtype: torch.dtype) -> Tensor:
    """By what the factors of each further `WIDTH` elements are multiplied."""
    return _random(rows, "first").to(device, dtype)


def _random(count: int, series: str) -> Tensor:
    """Numbers from 1/2 to 3/2 with either sign, in float64 on the CPU."""
    drawn = weights(series, count)
    magnitudes = (((drawn >> 20) & (STEPS - 1)) + STEPS // 2).double() / STEPS
    return torch.where(drawn < 0, -magnitudes, magnitudes)
