"""A rank that kills itself keeps its stack first; nothing of a kill of another process is kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.process.exit_hooks import _record_own_kill
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.logs.faulthandler_stacks import from_faulthandler


@pytest.mark.parametrize(
    ("number", "own", "kept"), [(signal.SIGKILL, True, True), (signal.SIGKILL, False, False), (0, True, False)]
)
def test_the_stack_of_a_rank_that_kills_itself_is_kept(
    number: int, own: bool, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    rank = Rank(str(tmp_path))
    rank.place([], {"rank": 0, "world_size": 1})
    _record_own_kill(rank)
    pid = os.getpid() if own else os.getppid()

    os.kill(pid, number)

    assert sent == [(pid, number)]
    assert Path(rank.path("crash")).exists() == kept
    if kept:
        (main,) = [thread for thread in from_faulthandler(Path(rank.path("crash")).read_text()) if thread.main]
        assert any(frame.file == __file__ for frame in main.frames)
