"""A directory with a path short enough for Unix sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dd-", dir="/tmp") as directory:
        yield Path(directory)
