"""Whose checkpoint is whose: the rank in a file's name, or its place among the files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_RANK = re.compile(r"(?<![a-z])rank[-_.=]?(\d+)", re.IGNORECASE)


def by_rank(paths: Sequence[Path]) -> tuple[dict[int, Path], str]:
    """The files by rank, and a sentence that says where the ranks come from."""
    numbers = [_number(path) for path in paths]
    known = [number for number in numbers if number is not None]
    if len(set(known)) == len(paths):
        pairs = sorted(zip(known, paths, strict=True))
        return dict(pairs), "rank numbers are taken from the file names"
    listed = ", ".join(f"rank {rank} is {path}" for rank, path in list(enumerate(paths))[:4])
    more = ", ..." if len(paths) > 4 else ""
    return dict(enumerate(paths)), f"rank numbers follow the order of the files: {listed}{more}"


def _number(path: Path) -> int | None:
    """The last `rank3` in the path, the file's own name first."""
    for part in reversed(path.parts):
        found = _RANK.findall(part)
        if found:
            return int(found[-1])
    return None
