"""Which bits of a tensor's element differ, by parities, and whether they are as few as a fault of the hardware changes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from ddpdoctor.analysis.replicas.aligned_steps import ByRank
from ddpdoctor.evidence.training_trace import TensorKind, Track

BITS = {"float64": 64, "float32": 32, "bfloat16": 16, "float16": 16}
WORD_BITS = 64
LEAST_ELEMENTS = 16  # where fewer are written, by `weight.data.clamp_()` say, it may well be a single one


def by_hardware(mask: int, bits: int, shape: Sequence[int]) -> bool:
    """Whether the bits that differ are as few as a fault changes: those of one element, a single one in a small tensor."""
    few = math.prod(shape) < LEAST_ELEMENTS
    return in_one_element(mask, bits) and not (few and mask & (mask - 1))


def single_bits(masks: Iterable[int]) -> bool:
    """Whether each is one bit: code that writes an element hardly ever changes one bit of it, and bad memory does."""
    return all(mask and not mask & (mask - 1) for mask in masks)


def in_one_element(mask: int, bits: int) -> bool:
    """Whether all bits that differ lie in the place of one element of a word."""
    lanes = {place // bits for place in range(WORD_BITS) if mask >> place & 1}
    return len(lanes) == 1


def bits_of(mask: int, bits: int) -> tuple[int, ...]:
    """The bits of the element that differ, 0 for the lowest."""
    return tuple(sorted({place % bits for place in range(WORD_BITS) if mask >> place & 1}))


def width_of(tracks: Mapping[int, Track], name: str) -> int:
    """The bits of one element of a tensor; those of a word where its dtype is not known."""
    kinds: Sequence[TensorKind] = next(iter(tracks.values())).kinds
    dtype = next((kind.structure.get("dtype", "") for kind in kinds if kind.name == name), "")
    return BITS.get(dtype, WORD_BITS)


def shape_of(seen: ByRank, tracks: Mapping[int, Track], name: str) -> Sequence[int]:
    """The shape of a parameter at the forward of the step; empty where it is not known."""
    rank, one = next(iter(seen.items()))
    return tracks[rank].tables[one.weights].shapes.get(name, ())


def listed_shape(tracks: Mapping[int, Track], name: str) -> Sequence[int]:
    """The shape of a tensor when its model was wrapped."""
    kinds: Sequence[TensorKind] = next(iter(tracks.values())).kinds
    listed = next((kind.structure.get("shape", "") for kind in kinds if kind.name == name), "")
    shape: list[int] = json.loads(listed or "[]")
    return shape
