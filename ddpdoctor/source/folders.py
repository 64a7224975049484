"""All folders below one, however deep: `os.walk` recurses before Python 3.12."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def folders_below(top: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each folder with the names of the folders and files in it, sorted, `top` first; links to folders are not followed.

    The caller may take names out of the list of folders, which are then left out. A folder that cannot be read has none.
    """
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        except OSError:
            continue
        folders.sort()
        files.sort()
        yield folder, folders, files
        waiting += [folder / name for name in reversed(folders)]
