"""How often each buffer of a model was written."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from torch import Tensor

VERSION: Callable[[Tensor], int] = attrgetter("_version")
"""How often operations have written a tensor: PyTorch gives it no other name."""


class BufferWrites:
    """Counts how often each buffer was written: by operations, or by code that put another tensor in its place."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[weakref.ref[Tensor], int, int]] = {}  # by name, with its version and its writes

    def look(self, buffers: Mapping[str, Tensor]) -> bool:
        """Count the writes to `buffers` since they were looked at last, and return whether one that was known has none."""
        kept = False
        for name, buffer in buffers.items():
            version = 0 if buffer.is_inference() else VERSION(buffer)
            known = self._known.get(name)
            if known is None:
                self._known[name] = weakref.ref(buffer), version, 0
                continue
            there, before, writes = known
            if there() is not buffer:
                self._known[name] = weakref.ref(buffer), version, writes + 1
            elif version != before:
                self._known[name] = there, version, writes + version - before
            else:
                kept = True
        return kept

    def of(self, names: Iterable[str]) -> list[int]:
        """The writes to each of these since it was seen first."""
        return [self._known[name][2] for name in names]
