"""One checkpoint as a table: of every entry its part, name, kind and fingerprint, but not its values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ddpdoctor.agent.inside.tensors.fingerprint import best_method, digests
from ddpdoctor.checkpoints.layout import Part, named
from ddpdoctor.checkpoints.open_checkpoint import open_checkpoint
from ddpdoctor.checkpoints.reader import Path_, UnreadableError

Key = tuple[Part, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a checkpoint."""

    path: Path_
    """The keys that lead to it in the file."""
    says: str
    """A plain value's text, or the fingerprint of a tensor's bytes."""
    dtype: str = ""
    """The tensor's dtype without `torch.`, with scale and zero point where it is quantised; empty for a plain value."""
    shape: tuple[int, ...] | None = None
    """The tensor's shape; None for a plain value."""
    bytes: int = 0
    """The size of the tensor's elements; 0 for a plain value."""


@dataclass(frozen=True, slots=True)
class CheckpointEntries:
    """All entries of one checkpoint."""

    rows: dict[Key, Row]
    """Every entry by its part and the name by which it is compared."""
    ordered: bool
    """Whether names stand in the order of the model, so that numbered optimizer state can be given its names."""
    prefixes: tuple[str, ...]
    """What was left out of names: `module.`, `_orig_mod.`."""
    sharded: int
    """How many tensors it holds only a part of; they have no row."""

    def has(self, part: Part) -> bool:
        """Whether it holds anything of this part."""
        return any(key[0] == part for key in self.rows)


def listing(path: Path) -> CheckpointEntries:
    """The table of the checkpoint at `path`; a tensor at a time is in memory.

    Raises:
        UnreadableError: it cannot be read, or is not a checkpoint.
    """
    rows: dict[Path_, Row] = {}
    sharded = 0
    try:
        stored = open_checkpoint(path)
        for place, value in stored.leaves():
            if isinstance(value, Tensor):
                if hasattr(value, "placements"):
                    sharded += 1
                else:
                    rows[place] = _row(place, value)
            else:
                rows[place] = Row(place, value)
    except UnreadableError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file breaks readers in ways of its own
        raise UnreadableError(f"is truncated or damaged: {type(error).__name__}: {error}") from None
    names, prefixes = named({place: row.shape is not None for place, row in rows.items()})
    if not any(row.shape is not None for row in rows.values()):
        raise UnreadableError("contains no tensor to compare")
    table = {(names[place].part, names[place].name): row for place, row in rows.items()}
    return CheckpointEntries(table, stored.ordered, prefixes, sharded)


def row_major(tensor: Tensor) -> Tensor:
    """The tensor's values as they are compared: in row-major order, a quantised one's integers."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    return tensor.contiguous() if tensor.layout is torch.strided else tensor


def _row(path: Path_, tensor: Tensor) -> Row:
    low, high = digests([row_major(tensor)], best_method())[0].tolist()
    kind = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_quantized and tensor.qscheme() in {torch.per_tensor_affine, torch.per_tensor_symmetric}:
        kind = f"{kind} (scale {tensor.q_scale():g}, zero point {tensor.q_zero_point()})"
    size = tensor.numel() * tensor.element_size()
    return Row(path, f"{low:x}/{high:x}", kind, tuple(tensor.shape), size)
