"""A rank that kills itself keeps its stack first; nothing of a kill of another process is kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.process.exit_hooks import _record_own_kill
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.logs.faulthandler_stacks import frames_of_crash


@pytest.mark.parametrize(
    ("send", "kept"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), True),
        (lambda: os.kill(0, signal.SIGKILL), True),
        (lambda: os.kill(-os.getpgrp(), signal.SIGKILL), True),
        (lambda: os.kill(os.getppid(), signal.SIGKILL), False),
        (lambda: os.kill(os.getpid(), 0), False),
        (lambda: os.killpg(os.getpgrp(), signal.SIGKILL), True),
        (lambda: os.killpg(os.getpgrp() + 1, signal.SIGKILL), False),
        (lambda: signal.raise_signal(signal.SIGKILL), True),
        (lambda: signal.raise_signal(signal.SIGUSR1), False),
    ],
)
@pytest.mark.parametrize("in_a_thread", [False, True])
def test_the_stack_of_a_rank_that_kills_itself_is_kept(
    send: Callable[[], None], kept: bool, in_a_thread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, ...]] = []
    for module, name in ((os, "kill"), (os, "killpg"), (signal, "raise_signal")):
        monkeypatch.setattr(module, name, lambda *given: sent.append(given))
    rank = Rank(str(tmp_path))
    rank.place([], {"rank": 0, "world_size": 1})
    _record_own_kill(rank)

    if in_a_thread:
        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
    else:
        send()

    assert len(sent) == 1
    assert Path(rank.path("crash")).exists() == kept
    if kept:
        frames = frames_of_crash(Path(rank.path("crash")).read_text())
        assert any((frame.file, frame.function) == (__file__, "<lambda>") for frame in frames)
