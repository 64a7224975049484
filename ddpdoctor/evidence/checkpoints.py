"""Checkpoints of the ranks of one job, compared with each other after they were written."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.replicas import StructureDifference, ValueDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """One comparison. `files` are the checkpoints by rank, `tensors` and `bytes` what one of them holds.

    `structure` and `values` are in the order of the first file; the role `parameter` stands for every tensor of the model
    that is no BatchNorm statistic, which have the role `buffer`. `compared` counts the names of each role. `within` is how
    many tensors differ by no more than `tolerance`, and are not in `values`; `largest` is the largest such difference.
    """

    files: tuple[tuple[int, str], ...]
    tensors: int
    bytes: int
    compared: dict[str, int]
    structure: tuple[StructureDifference, ...] = ()
    values: tuple[ValueDifference, ...] = ()
    tolerance: float = 0.0
    within: int = 0
    largest: float = 0.0


KINDS = (Checkpoints,)
