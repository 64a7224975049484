"""All folders of a project below one, however deep: `os.walk` recurses before Python 3.12."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_IGNORED = frozenset(
    {
        "__pycache__",
        "__pypackages__",
        "_build",
        "buck-out",
        "build",
        "dist",
        "dist-packages",
        "node_modules",
        "site-packages",
        "venv",
    }
)
"""What ruff leaves out, too, beside hidden folders."""
_OF_AN_ENVIRONMENT = "pyvenv.cfg"


def identity(file: Path) -> tuple[int, int] | str:
    """What is the same for all names of a file: links to it, and those through links to a folder."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a tenth of the time of Path's own
    except OSError:
        return str(file)
    return found.st_dev, found.st_ino


def folders_below(top: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of the files in it, sorted, `top` first; links to folders are not followed.

    Left out are hidden folders, virtual environments, and those of builds and of installed packages, unless one is `top`.
    A folder that cannot be read has no files.
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
        if _OF_AN_ENVIRONMENT in files and folder != top:
            continue
        yield folder, sorted(files)
        own = (name for name in folders if not name.startswith(".") and name not in _IGNORED)
        waiting += [folder / name for name in sorted(own, reverse=True)]
