"""A process that waits for others says for whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.cli.progress import Progress
from ddpdoctor.cli.waits import KNOWN_SECONDS, QUIET_SECONDS, Waits
from ddpdoctor.launch import attendance
from ddpdoctor.launch.attendance import Attendance, WaitingProcess
from ddpdoctor.workflows import verify_script
from ddpdoctor.workflows.verify_script import _Joining

WAITING = WaitingProcess(number=0, size=4, where="node0:29500", speaks=True)


def test_who_is_absent_is_known_until_all_have_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WaitingProcess] = []
    monkeypatch.setattr(attendance, "EVERY_SECONDS", 0.0)
    watched = Attendance(tmp_path / "file.json", WAITING, seen.append)
    monkeypatch.setenv(attendance.VARIABLE, watched.environment[attendance.VARIABLE])
    for present, complete in ((None, None), ((0,), False), ((0, 3), False), (None, True), ((0,), False)):
        if complete is not None:
            attendance.note(present, complete=complete)
        watched._next = 0.0
        watched.poll()
        if (present, complete) == ((0, 3), False):
            assert watched.lacking == "ranks 1-2 of 4 did not come to node0:29500"
    assert [waiting.absent for waiting in seen] == [None, (1, 2, 3), (1, 2)]
    assert watched.lacking == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_it_is_said_once_and_when_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    waits = Waits(Progress(None, lines=False), 60.0)
    waits.note(replace(WAITING, seconds=QUIET_SECONDS + 1))
    assert capsys.readouterr().err == ""
    for seconds in (QUIET_SECONDS + 2, QUIET_SECONDS + 3):
        waits.note(replace(WAITING, absent=(1, 2), seconds=seconds))
    said = capsys.readouterr().err
    assert said.startswith("ddpdoctor: rank 0 of 4 on ")
    assert said.endswith(" waits for ranks 1-2 at node0:29500 for at most 60 s\n")
    assert said.count("\n") == 1


def test_nothing_is_said_where_everybody_has_come(capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: `rank 0 of 4 waits for no rank`."""
    Waits(Progress(None, lines=False), 60.0).note(replace(WAITING, absent=(), seconds=KNOWN_SECONDS))
    assert capsys.readouterr().err == ""


def test_a_node_that_knows_nobody_says_so_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    Waits(Progress(None, lines=False), 30.0).note(replace(WAITING, noun="node", seconds=KNOWN_SECONDS))
    assert "node 0 of 4" in (said := capsys.readouterr().err)
    assert "waits for the other nodes at node0:29500" in said


def test_names_that_become_known_later_are_said_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    waits = Waits(Progress(None, lines=False), 60.0)
    for absent in (None, None, (2,), (2,)):
        waits.note(replace(WAITING, absent=absent, seconds=KNOWN_SECONDS))
    said = capsys.readouterr().err
    assert said.count("waits for the other ranks at") == said.count("waits for rank 2 at") == 1


def test_a_script_that_is_in_its_init_process_group_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WaitingProcess] = []
    monkeypatch.setattr(verify_script, "EVERY_SECONDS", 0.0)
    joining = _Joining(tmp_path, WAITING, seen.append)
    joining.note()
    assert seen == []
    (tmp_path / "7.joining").write_text("10.0.0.1:4444", encoding="utf-8")
    joining.note()
    (tmp_path / "7.joining").write_text("", encoding="utf-8")
    joining.note()
    assert [waiting.where for waiting in seen] == ["10.0.0.1:4444", "node0:29500"]
    assert all(0 <= waiting.seconds < 3600 and waiting.absent is None for waiting in seen)
    (tmp_path / "7.joining").unlink()
    joining.note()
    assert len(seen) == 2


@pytest.mark.parametrize("command", [["net"], ["verify-sync"], ["allreduce-bench"], ["train"]], ids=" ".join)
def test_a_rank_outside_the_world_is_refused_at_once(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"RANK": "5", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert cli.run(command) == 2
    captured = capsys.readouterr()
    assert "RANK=5 is not in 0..3 (WORLD_SIZE=4), so this rank cannot join" in captured.err
    assert captured.out == ""
