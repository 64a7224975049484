"""One checkpoint as a table: of every entry its part, name, kind and fingerprint, but not its values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ddpdoctor.agent.inside.fingerprint import best_method, digests
from ddpdoctor.checkpoints.layout import Part, named
from ddpdoctor.checkpoints.open_checkpoint import open_checkpoint
from ddpdoctor.checkpoints.reader import Path_, UnreadableError

Key = tuple[Part, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One entry. `says` is a plain value's text, or the fingerprint of a tensor's bytes; `shape` is None for plain ones."""

    path: Path_
    says: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """All entries of one checkpoint. `sharded` counts tensors of which it holds only a part."""

    rows: dict[Key, Row]
    ordered: bool
    prefixes: tuple[str, ...]
    sharded: int

    def has(self, part: Part) -> bool:
        """Whether it holds anything of this part."""
        return any(key[0] == part for key in self.rows)


def listing(path: Path) -> Listing:
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
    return Listing(table, stored.ordered, prefixes, sharded)


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
