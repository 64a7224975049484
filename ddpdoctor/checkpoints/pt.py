"""`.pt` files of `torch.save`: mapped into memory, and read by an unpickler that knows tensors and containers only."""

from __future__ import annotations

import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from ddpdoctor.checkpoints.reader import Path_, UnreadableError, flattened

_ASKS_FOR = re.compile(r"GLOBAL (\S+)")


class PtFile:
    """A file of `torch.save`. Its pages are read when a tensor is looked at, and are nobody's when it is forgotten."""

    ordered = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def leaves(self) -> Iterator[tuple[Path_, Tensor | str]]:
        """Every tensor, and every plain value as text."""
        yield from flattened(self._tree, stored_bytes=self._path.stat().st_size)

    def tensor(self, path: Path_) -> Tensor:
        """The tensor at `path`."""
        return self._tensors[path]

    @cached_property
    def _tensors(self) -> dict[Path_, Tensor]:
        return {path: value for path, value in self.leaves() if isinstance(value, Tensor)}

    @cached_property
    def _tree(self) -> object:
        return load_tensors(str(self._path), mmap=True)


def load_tensors(file: str | IO[bytes], *, mmap: bool = False) -> object:
    """What `torch.save` wrote to `file`, where it holds nothing but tensors, containers, plain values and a Namespace.

    Raises:
        UnreadableError: it is broken, or asks for anything else; nothing that it asks for is called.
    """
    _refuse_what_grows(file)
    torch.serialization.add_safe_globals([Namespace])  # the parsed arguments: attributes and nothing else
    try:
        return torch.load(file, map_location="cpu", mmap=mmap, weights_only=True)
    except Exception as error:  # noqa: BLE001 - the readers of a hostile file raise what they like
        asked = _ASKS_FOR.search(str(error))
        if asked is not None:
            raise UnreadableError(
                f"is refused: its pickle asks for {asked[1].rstrip('.')}, which is code and not data (none of it was run)"
            ) from None
        if "TorchScript" in str(error):
            raise UnreadableError(
                "is a TorchScript archive, which is a program: save its state_dict() instead"
            ) from None
        raise UnreadableError(f"is truncated or damaged: {_first_line(error)}") from None


def _refuse_what_grows(file: str | IO[bytes]) -> None:
    """An archive that is larger unpacked: torch.save stores every part as it is, each once.

    Raises:
        UnreadableError: a part is compressed, or the parts have more bytes than the archive.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return  # what is wrong with it, torch says
    finally:
        if not isinstance(file, str):
            file.seek(0)
    size = Path(file).stat().st_size if isinstance(file, str) else file.seek(0, 2)
    if not isinstance(file, str):
        file.seek(0)
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts) or sum(part.file_size for part in parts) > size:
        raise UnreadableError("is refused: its parts are compressed or overlap, which torch.save never does")


def _first_line(error: Exception) -> str:
    reason = str(error).partition("WeightsUnpickler error:")[2].strip() or str(error)
    return next((line for line in reason.splitlines() if line.strip()), type(error).__name__)[:200]
