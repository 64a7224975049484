"""Directories of `torch.distributed.checkpoint`: tensors in pieces over several files, and a pickled table of contents."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ddpdoctor.checkpoints.pt import load_tensors
from ddpdoctor.checkpoints.reader import Path_, UnreadableError, flattened
from ddpdoctor.regular_file import open_regular, read_regular

METADATA = ".metadata"
MOST_METADATA_BYTES = 1 << 30  # a hundred bytes for each part of each tensor
_RECORDS = ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem", "pathlib")

_GIVE_RECORDS = {("torch.serialization", "_get_layout"), ("builtins", "getattr")}
"""Functions whose results are only known to be there; Python 3.11.0 to 3.11.3 pickle enums by `getattr`."""


class _Record:
    """Stands for any class of the table of contents: holds its attributes, and has no behaviour."""

    def __init__(self, *_arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)
        else:  # a TensorProperties: dtype, layout, requires_grad, memory format, pinned
            self.state = state

    def __hash__(self) -> int:
        return id(self)


class _Contents(pickle.Unpickler):
    """Gives a `_Record` for the classes that a table of contents has, and refuses everything else; nothing is imported."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - what a pickle asks for
        """The stand-in for `module.name`."""
        if module in _RECORDS and "." not in name:
            return _Record
        if (module, name) == ("torch", "Size"):
            return tuple
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) in _GIVE_RECORDS:
            return _Record
        raise UnreadableError(
            f"is refused: its {METADATA} asks for {module}.{name}, which is code and not data (none of it was run)"
        )


class DcpDirectory:
    """A checkpoint of `torch.distributed.checkpoint.save`. Each tensor is put together when it is asked for."""

    ordered = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            self._stored_bytes = sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
            contents = _Contents(io.BytesIO(read_regular(directory / METADATA, most=MOST_METADATA_BYTES))).load()
            self._kinds = dict(contents.state_dict_metadata)
            self._paths = {
                tuple(map(str, path)): name
                for name, path in (contents.planner_data or {name: (name,) for name in self._kinds}).items()
            }
            self._pieces: dict[str, list[tuple[Any, Any]]] = {}
            for index, where in contents.storage_data.items():
                self._pieces.setdefault(index.fqn, []).append((index, where))
        except UnreadableError:
            raise
        except Exception as error:  # noqa: BLE001 - a hostile pickle raises what it likes
            raise UnreadableError(f"has a damaged {METADATA}: {type(error).__name__}: {error}") from None

    def leaves(self) -> Iterator[tuple[Path_, Tensor | str]]:
        """Every tensor and plain value, put together one at a time."""
        for path, name in self._paths.items():
            if hasattr(self._kinds.get(name), "size"):
                yield path, self.tensor(path)
            else:
                for inner, value in flattened(self._read(self._one_piece(name))):
                    yield (*path, *inner), value

    def tensor(self, path: Path_) -> Tensor:
        """The tensor at `path`, from all its pieces."""
        name = self._paths[path]
        kind = self._kinds[name]
        dtype = kind.properties.state[0]
        needed = math.prod(kind.size) * dtype.itemsize
        if not 0 <= needed <= self._stored_bytes:
            raise UnreadableError(
                f"is damaged: {METADATA} says that {name} has {needed:,} bytes; all files have {self._stored_bytes:,}"
            )
        whole = torch.empty(kind.size, dtype=dtype)
        sizes = {tuple(chunk.offsets): tuple(chunk.sizes) for chunk in kind.chunks}
        filled = 0
        for index, where in self._pieces.get(name, []):
            piece = self._read(where)
            offsets = tuple(index.offset)
            if not isinstance(piece, Tensor) or sizes.get(offsets) != tuple(piece.shape) or piece.dtype != whole.dtype:
                raise UnreadableError(f"is damaged: the piece of {name} at {list(offsets)} is not what {METADATA} says")
            target = whole
            for dimension, (offset, size) in enumerate(zip(offsets, piece.shape, strict=True)):
                target = target.narrow(dimension, offset, size)
            target.copy_(piece)
            filled += piece.numel()
        if filled != whole.numel():
            raise UnreadableError(f"is damaged: it holds {filled:,} of the {whole.numel():,} elements of {name}")
        return whole

    def _one_piece(self, name: str) -> Any:  # noqa: ANN401 - a record of the table of contents
        pieces = self._pieces.get(name, [])
        if not pieces:
            raise UnreadableError(f"is damaged: {METADATA} says nothing about where {name} is")
        return pieces[0][1]

    def _read(self, where: Any) -> object:  # noqa: ANN401 - a record of the table of contents
        if getattr(where, "transform_descriptors", None):
            raise UnreadableError("is compressed or encrypted by an extension: load it and save it again without")
        file = (self._directory / where.relative_path).resolve()
        if self._directory.resolve() not in file.parents:
            raise UnreadableError(f"is refused: its {METADATA} points to {where.relative_path}, outside of it")
        try:
            with open_regular(file) as opened:
                opened.seek(where.offset)
                data = opened.read(min(where.length, self._stored_bytes))
        except OSError as error:
            raise UnreadableError(f"is damaged: {where.relative_path}: {error.strerror}") from None
        if len(data) < where.length:
            raise UnreadableError(f"is truncated: {where.relative_path} ends {where.length - len(data):,} bytes early")
        return load_tensors(io.BytesIO(data))
