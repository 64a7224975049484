"""A directory with a path short enough for Unix sockets, and no trace function left for the next test."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dd-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def trace_function_as_before() -> Iterator[None]:
    """A tracker that a test leaves in the middle of a job may still watch lines, and then no other one can."""
    before = sys.gettrace()
    yield
    sys.settrace(before)
