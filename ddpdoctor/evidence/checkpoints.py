"""Checkpoints of the ranks of one job, compared with each other after they were written."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.replicas import StructureDifference, ValueDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """One comparison of checkpoints."""

    files: tuple[tuple[int, str], ...]
    """Rank and path of each checkpoint."""
    tensors: int
    """The number of tensors in one of them."""
    bytes: int
    """The size of the tensors in one of them."""
    compared: dict[str, int]
    """How many names of each role were compared."""
    structure: tuple[StructureDifference, ...] = ()
    """Tensors that are of another kind in some files, in the order of the first file.

    BatchNorm statistics have the role `buffer`, every other tensor of the model the role `parameter`.
    """
    values: tuple[ValueDifference, ...] = ()
    """Tensors whose values differ, in the order of the first file."""
    tolerance: float = 0.0
    """The difference that is allowed; 0 compares bits."""
    within: int = 0
    """How many tensors differ by no more than `tolerance`; they are not in `values`."""
    largest: float = 0.0
    """The largest difference among these."""


KINDS = {Checkpoints: "checkpoints to compare"}
