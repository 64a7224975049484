"""What ddpdoctor starts ends with it, however either of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from ddpdoctor.launch import subreaper
from ddpdoctor.launch.guarded_process import SUBREAPER, ProgramEnd, end, run, run_each, start_guarded
from tests.waiting import PROGRAM_SECONDS, within

FAMILY = textwrap.dedent(
    """
    import os, subprocess, sys, time
    mark = sys.argv[1]
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)", mark]
    subprocess.Popen(sleeper, start_new_session=True)  # a worker in its own session, as torchrun makes them
    if os.fork() == 0:  # an orphan: its parent leaves at once
        subprocess.Popen(sleeper, start_new_session=True)
        os._exit(0)
    print("ready", flush=True)
    time.sleep(600)
    """
)


def alive(mark: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in (process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_a_program_that_ends_gives_its_code_and_output() -> None:
    ended = run(
        [sys.executable, "-c", "import sys; print('out'); sys.stderr.write('err'); sys.exit(7)"], deadline_seconds=30
    )
    assert (ended.code, ended.stdout, ended.stderr, ended.timed_out) == (7, "out\n", "err", False)


def test_a_program_that_is_killed_gives_128_and_the_signal() -> None:
    ended = run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], deadline_seconds=30)
    assert ended.code == 128 + signal.SIGKILL


def test_many_programs_end_each_for_itself_and_in_order() -> None:
    """More than run at a time; one of them hangs, one is not there, and the others do not wait for either."""
    speaks = [["printf", "é" * number] for number in range(6)]
    killed = ["sh", "-c", "kill -9 $$"]

    first, absent, signalled, *others = run_each(
        [["sleep", "600"], ["no-such-program"], killed, *speaks], deadline_seconds=6
    )

    assert first.timed_out
    assert (absent.code, absent.stderr) == (127, "no-such-program: No such file or directory\n")
    assert signalled.code == 128 + signal.SIGKILL
    assert [(each.code, each.stdout) for each in others] == [(0, "é" * number) for number in range(6)]
    assert all(each.seconds < first.seconds for each in others)
    assert run_each([], deadline_seconds=6) == ()


def test_a_program_that_does_not_exist_is_a_plain_failure() -> None:
    ended = run(["/nonexistent/program"], deadline_seconds=30)
    assert ended.code == 127
    assert "No such file" in ended.stderr


def test_the_deadline_ends_workers_in_their_own_session_and_orphans(tmp_path: Path) -> None:
    mark = str(tmp_path)
    ended = run([sys.executable, "-c", FAMILY, mark], deadline_seconds=1.5)
    assert ended.timed_out
    assert within(lambda: not alive(mark))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_survives_our_own_death(tmp_path: Path, number: signal.Signals) -> None:
    mark = str(tmp_path)
    code = (
        "import sys; from ddpdoctor.launch.guarded_process import run; "
        "run([sys.executable, '-c', sys.argv[1], sys.argv[2]], deadline_seconds=600)"
    )
    us = subprocess.Popen([sys.executable, "-c", code, FAMILY, mark])
    assert within(lambda: len(alive(mark)) >= 4), "the family did not come up"
    os.kill(us.pid, number)
    us.wait(timeout=PROGRAM_SECONDS)
    assert within(lambda: not alive(mark))


@pytest.mark.parametrize("moment", ["before it runs", "while it runs"])
def test_a_request_to_end_is_heard_at_any_moment(tmp_path: Path, moment: str) -> None:
    """The subreaper's parent is another process than it was told: whoever started it was killed at once."""
    mark = str(tmp_path)
    parent = os.getpid() if moment == "while it runs" else 1 << 22
    subreaper = [
        sys.executable,
        "-I",
        "-S",
        str(SUBREAPER),
        "0.5",
        str(parent),
        sys.executable,
        "-c",
        FAMILY,
        mark,
    ]
    with subprocess.Popen(subreaper, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if moment == "while it runs":
            assert process.stdout.readline() == "ready\n"
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                process.send_signal(number)
        assert process.wait(timeout=PROGRAM_SECONDS) == 128 + signal.SIGTERM
    assert not alive(mark)


def test_a_killed_subreaper_leaves_nothing_of_its_tree(tmp_path: Path) -> None:
    """The second line: the tree is known by a variable, the orphans in sessions of their own included."""
    mark = f"mark-{os.getpid()}-killed-subreaper"

    def kill_the_subreaper() -> bool:
        if len(alive(mark)) >= 3:
            for child in psutil.Process().children():
                if str(SUBREAPER) in child.cmdline():
                    child.kill()
        return False

    ended = run([sys.executable, "-c", FAMILY, mark], deadline_seconds=60, poll=kill_the_subreaper)
    assert ended.code == -signal.SIGKILL
    assert within(lambda: not alive(mark))


@pytest.mark.timeout(60)
def test_a_process_that_nothing_can_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits in the kernel for a disk or a driver outlives SIGKILL; a command that waited for it would never end."""
    monkeypatch.setattr(subreaper, "UNKILLABLE_SECONDS", 0.1)
    monkeypatch.setattr(subreaper, "_descendants", lambda: [1 << 22])  # above any process id
    subreaper._end_tree(0.1)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("", None),
        ("[W1123 01:00:00.1 socket.cpp:469] [c10d] waitForInput: poll for socket timed out\n", None),
        ("ValueError: bad port \n\n  [rank3]:[E1123 01:00:00.1 TCPStore.cpp:1] failed\n", "ValueError: bad port"),
        ("Exception raised from f at /b/socket.cpp:1 (most recent call first):\nframe #0: c10::Error\n", None),
        ("[WinError 5] denied\nframe #0: c10::Error\n<omitting python frames>\n", "[WinError 5] denied"),
    ],
)
def test_what_torch_logs_of_itself_is_not_the_last_word_of_a_program(stderr: str, words: str | None) -> None:
    assert ProgramEnd(code=1, stdout="", stderr=stderr, timed_out=False, seconds=0.0).last_words == words


def test_a_program_is_ended_where_a_signal_has_interrupted_popen_with_its_lock_held() -> None:
    process = start_guarded([sys.executable, "-c", "import time; time.sleep(600)"])
    assert process._waitpid_lock.acquire(timeout=5)  # type: ignore[attr-defined]  # what such a signal leaves
    end(process)
    assert process.returncode is not None
