"""A process that reads dumps is killed: its files are named or read again, and the rest is judged."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from pathlib import Path

import pytest

from ddpdoctor.errors import UndecidedError
from ddpdoctor.ranks import fr_dump_files
from ddpdoctor.ranks.fr_dump_files import Dump, read_dump, read_dumps

GLOO = Path(__file__).parents[1] / "data" / "recorder" / "gloo" / "rank_0"
FILES = fr_dump_files.WORTH_IT


@pytest.fixture
def dumps(tmp_path: Path) -> list[Path]:
    return [Path(shutil.copy(GLOO, tmp_path / f"rank_{rank}")) for rank in range(FILES)]


@pytest.mark.parametrize("always", [False, True])
def test_what_a_killed_reader_leaves_is_read_or_named(
    dumps: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """Once: nothing is lost. Always at one file, as where it takes all memory: that file is named, and no other one."""
    read, marker, ours = fr_dump_files.read_dump, tmp_path / "killed", os.getpid()

    def killed_at_one(path: Path) -> Dump:
        if path.name == "rank_17" and os.getpid() != ours and (always or not marker.exists()):
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return read(path)

    monkeypatch.setattr(fr_dump_files, "read_dump", killed_at_one)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    found = list(read_dumps(dumps))
    lost = [str(each) for each in found if isinstance(each, UndecidedError)]
    assert marker.exists()
    assert len(found) == FILES
    assert lost == ([f"{tmp_path / 'rank_17'}: the process that read it was killed"] if always else [])


def test_containers_that_are_shared_without_end_are_refused(tmp_path: Path) -> None:
    """A kilobyte of pickle, in which each list holds the one below it ten times: in memory small, as a text endless."""
    document = pickle.loads(GLOO.read_bytes())
    for field in ("profiling_name", "process_group", "input_sizes"):
        tree: object = ["x"]
        for _ in range(12):
            tree = [tree] * 10
        entries = [{**entry, field: tree} for entry in document["entries"]]
        (tmp_path / "rank_0").write_bytes(pickle.dumps({**document, "entries": entries}))
        with pytest.raises(UndecidedError):
            read_dump(tmp_path / "rank_0")
