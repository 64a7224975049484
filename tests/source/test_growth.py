"""What `lint` does for a file of generated code grows no faster than the file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ddpdoctor.workflows.lint import lint_paths
from tests.bench.lint import GENERATED, generated

PARTS = 250  # more than the reader looks back over


@pytest.mark.parametrize("name", GENERATED)
def test_twice_the_code_is_twice_the_work(tmp_path: Path, name: str) -> None:
    _calls(tmp_path / "0" / name, 1)  # imports what is imported once
    once, twice, thrice = (_calls(tmp_path / f"{times}" / name, times * PARTS) for times in (1, 2, 3))
    assert thrice - twice <= 1.2 * (twice - once)


def _calls(file: Path, parts: int) -> int:
    """How many functions of Python are called while a program of so many parts is read and judged."""
    file.parent.mkdir()
    file.write_text(generated(file.name, parts))
    made = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    try:
        lint_paths([file])
    finally:
        sys.setprofile(None)
    return made
