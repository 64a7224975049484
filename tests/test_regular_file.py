"""What is no regular file is refused at once: a device would never end, a FIFO would never begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.regular_file import read_regular


def fifo(folder: Path) -> Path:
    path = folder / "train.py"
    os.mkfifo(path)
    return path


def test_a_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"import torch\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "train.py")
    assert read_regular(tmp_path / "link.py") == b"import torch\n"


@pytest.mark.timeout(20)
def test_a_fifo_and_a_device_are_refused(tmp_path: Path) -> None:
    for path in (fifo(tmp_path), Path("/dev/zero")):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_regular(path)


@pytest.mark.timeout(20)
def test_lint_and_explain_name_what_they_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fifo(tmp_path))
    assert run(["lint", path]) == 3
    assert f"{path} was passed over: it is not a regular file" in capsys.readouterr().out
    assert run(["explain", path]) == 2
    assert f"{path} is not a regular file" in capsys.readouterr().err


def test_a_file_that_is_larger_than_any_of_its_kind_is_refused_and_not_read(tmp_path: Path) -> None:
    """A sparse file of a terabyte takes no room on the disk, and would take all memory."""
    sparse = tmp_path / "train.py"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="more than 67108864 bytes"):
        read_regular(sparse)
