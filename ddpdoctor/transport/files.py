"""The files that a rank wrote as parts of a bundle, and back to files beside rank 0's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.transport.bundle import Bundle, Parts

LEAST_BYTES = 512  # of a piece with a digest of its own, which takes 18 bytes
MOST_BYTES = 16 << 20  # of a piece: messages are divided between pieces


def parts_of(folder: Path) -> Parts:
    """One part per file. A long line is a piece: replicas that agree wrote many of the same lines, which travel once."""
    return {file.name: [*_pieces(file.read_bytes())] for file in sorted(folder.iterdir()) if file.is_file()}


def _pieces(data: bytes) -> Iterator[bytes]:
    short = b""
    for line in data.splitlines(keepends=True):
        if len(line) >= LEAST_BYTES:
            if short:
                yield short
            yield from (line[start : start + MOST_BYTES] for start in range(0, len(line), MOST_BYTES))
            short = b""
        else:
            short += line
            if len(short) >= LEAST_BYTES:
                yield short
                short = b""
    if short:
        yield short


def write_files(bundle: Bundle, folder: Path, world_size: int) -> list[int]:
    """Write what each rank but 0 told, a file `RANK-NAME` per part; of two processes that claim a rank the first counts.

    Returns the ranks that came, and whose files did not come whole.
    """
    written = {0}
    for who, account in bundle.accounts.items():
        if who.rank in written or not 0 < who.rank < world_size or not bundle.complete(who):
            continue
        written.add(who.rank)
        for name in account.parts or {}:
            with contextlib.suppress(OSError, ValueError):  # no name of a file
                (folder / f"{who.rank}-{Path(name).name}").write_bytes(bundle.part(who, name) or b"")
    came = {who.rank for who in bundle.accounts if 0 < who.rank < world_size}
    return sorted(came - written)
