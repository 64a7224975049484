"""`.safetensors` files, read through the package `safetensors`, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from ddpdoctor.checkpoints.reader import Path_, UnreadableError


class SafetensorsFile:
    """A flat list of tensors; the format sorts them its own way."""

    ordered = False

    def __init__(self, path: Path) -> None:
        try:
            from safetensors import SafetensorError, safe_open
        except ImportError:
            raise UnreadableError(
                "is a safetensors file, and the package is not installed: pip install 'ddpdoctor[safetensors]'"
            ) from None
        try:
            self._file: Any = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise UnreadableError(f"is truncated or damaged: {error}") from None

    def leaves(self) -> Iterator[tuple[Path_, Tensor | str]]:
        """Every tensor."""
        for name in self._file.keys():  # noqa: SIM118 - it is no mapping
            yield (name,), self._file.get_tensor(name)

    def tensor(self, path: Path_) -> Tensor:
        """The tensor of this name."""
        tensor: Tensor = self._file.get_tensor(path[0])
        return tensor
