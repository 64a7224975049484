"""The versions of Python and torch that a running rank has loaded, whatever environment it runs in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ddpdoctor.launch.process_files import maps_of
from ddpdoctor.regular_file import MOST_SETTINGS_BYTES, read_regular

_TORCH = re.compile(r" (/\S*/torch)/lib/libtorch_cpu\.so$", re.MULTILINE)
_VERSION = re.compile(r"^__version__ = ['\"]([^'\"]+)['\"]", re.MULTILINE)
_PYTHON = re.compile(r"/lib(?:64)?/python(\d\.\d+)/lib-dynload/|/libpython(\d\.\d+)", re.MULTILINE)


def versions_of(pid: int) -> Mapping[str, str]:
    """`python` and `torch` of process `pid`, from the libraries that it has loaded; without what cannot be read."""
    root = Path(f"/proc/{pid}/root")  # of a container the paths are those inside it
    maps, found = maps_of(pid), {}
    if (python := _PYTHON.search(maps)) is not None:
        found["python"] = python[1] or python[2]
    if (torch := _TORCH.search(maps)) is not None:
        try:
            file = root / torch[1].lstrip("/") / "version.py"
            text = read_regular(file, most=MOST_SETTINGS_BYTES).decode(errors="replace")
        except OSError:
            text = ""
        if (version := _VERSION.search(text)) is not None:
            found["torch"] = version[1]
    return found
