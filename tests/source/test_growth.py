"""What `lint` does for a file of generated code grows no faster than the file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ddpdoctor.workflows.lint import lint_paths
from tests.bench.lint import GENERATED, generated

PARTS = 250  # more than the reader looks back over


@pytest.mark.parametrize("name", GENERATED)
def test_twice_the_code_is_twice_the_work(tmp_path: Path, name: str) -> None:
    _lines(tmp_path / "0" / name, 1)  # imports what is imported once
    once, twice, thrice = (_lines(tmp_path / f"{times}" / name, times * PARTS) for times in (1, 2, 3))
    assert thrice - twice <= 1.02 * (twice - once)  # 1.0004 at most where it is linear


def _lines(file: Path, parts: int) -> int:
    """How many lines of Python run while a program of so many parts is read and judged; each turn of a loop is one at least."""
    file.parent.mkdir()
    file.write_text(generated(file.name, parts))
    made = 0

    def count(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal made
        made += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        lint_paths([file])
    finally:
        sys.settrace(before)
    return made
