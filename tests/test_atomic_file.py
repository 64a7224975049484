"""A file is written whole or not at all, through links and into pipes, for those who may read it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import DdpdoctorError


def test_a_write_that_fails_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(DdpdoctorError, match="cannot write"):
        write_atomically(tmp_path / "file" / "report.json", "text")
    assert os.listdir(tmp_path) == ["file"]


def test_a_disk_that_is_full_keeps_no_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "there").mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DdpdoctorError, match="No space left"):
        write_atomically(tmp_path / "there" / "new" / "newer" / "case.json", "text")
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]


def test_a_pipe_and_a_link_are_written_through_and_not_replaced(tmp_path: Path) -> None:
    """As root, `--output /dev/null` would else leave a host without one."""
    pipe, link = tmp_path / "pipe", tmp_path / "link.json"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()

    (tmp_path / "kept").mkdir()
    link.symlink_to("kept/report.json")
    write_atomically(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "kept" / "report.json").read_text() == "text"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_is_as_private_as_its_owner_wants(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "report.json", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == mode
