"""Logs that are no plain text: compressed ones as collectors store them, UTF-16 as `>` of Windows PowerShell writes it."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

BLOCK_BYTES = 1 << 20


_UTF_16 = re.compile(
    rb"\xff\xfe[^\0]\0|\xfe\xff\0[^\0]", re.DOTALL
)  # the mark of the byte order, and an ASCII character
_UNPACKERS: dict[bytes, Callable[[BinaryIO], gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
"""What reads a compressed file, by its first bytes."""
_MARK_BYTES = max(map(len, _UNPACKERS))


def is_encoded(start: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed or UTF-16, and can be read all the same."""
    return _UTF_16.match(start) is not None or start.startswith(tuple(_UNPACKERS))


def plain_blocks(stream: BinaryIO) -> Iterator[bytes] | None:
    """The text of an encoded file as UTF-8, in blocks; None of a plain file. Where the file is cut or broken, the text ends.

    Raises:
        OSError: it cannot be read.
    """
    start = stream.read(_MARK_BYTES)
    stream.seek(0)
    if _UTF_16.match(start):
        return _blocks(codecs.EncodedFile(stream, "utf-8", "utf-16", "replace").read)
    unpacker = next((unpacker for mark, unpacker in _UNPACKERS.items() if start.startswith(mark)), None)
    return _blocks(unpacker(stream).read1) if unpacker is not None else None


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while True:
        try:
            block = read(BLOCK_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError):
            return
        if not block:
            return
        yield block
