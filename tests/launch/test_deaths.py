"""Two of our processes die at once, or one is stopped: what they started still ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddpdoctor.launch.guarded_process import end, start_guarded
from ddpdoctor.launch.process_tree import members
from tests.waiting import within

STARTER = """
import sys, time
from ddpdoctor.launch.guarded_process import start_guarded
process = start_guarded([sys.executable, "-c", "import time; time.sleep(600)"])
print(process.pid, flush=True)
time.sleep(600)
"""


def below(pid: int) -> list[int]:
    return [each for each in members(pid, "NOBODY=has-this") if each != pid]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_program_ends_when_we_and_the_subreaper_are_killed_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        subreaper = int(us.stdout.readline())
        assert within(lambda: len(below(subreaper)) == 1)
        (program,) = below(subreaper)
        assert within(lambda: Path(f"/proc/{program}/cmdline").read_bytes().startswith(sys.executable.encode()))
        for pid in (subreaper, us.pid):
            os.kill(pid, signal.SIGKILL)
        assert within(lambda: not is_alive(program))


def test_a_program_ends_when_we_are_killed_and_the_subreaper_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) as us:
        assert us.stdout is not None
        subreaper = int(us.stdout.readline())
        assert within(lambda: len(below(subreaper)) == 1)
        (program,) = below(subreaper)
        os.kill(subreaper, signal.SIGSTOP)
        os.kill(subreaper, signal.SIGCONT)  # to be continued is no reason to end
        time.sleep(0.2)
        assert is_alive(program)
        os.kill(subreaper, signal.SIGSTOP)
        os.kill(us.pid, signal.SIGKILL)
        assert within(lambda: not is_alive(program) and not is_alive(subreaper))


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_subreaper_that_is_stopped_or_killed_keeps_no_end_waiting(number: signal.Signals) -> None:
    process = start_guarded([sys.executable, "-c", "import time; time.sleep(600)"])
    assert within(lambda: len(below(process.pid)) == 1)
    (program,) = below(process.pid)
    os.kill(process.pid, number)
    end(process)
    assert process.returncode is not None
    assert within(lambda: not is_alive(program))


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--kill-on-hang", None])
def test_a_watched_job_ends_or_goes_on_when_the_watcher_and_its_companion_are_killed(
    option: str | None, tmp_path: Path
) -> None:
    """With --kill-on-hang it ends; without, it goes on: it was promised that a job outlives its watcher."""
    job = "import time, pathlib\ntime.sleep(4)\npathlib.Path('finished').touch()\ntime.sleep(600)\n"
    command = [
        sys.executable,
        "-m",
        "ddpdoctor",
        "watch",
        *([option] if option else []),
        "--",
        sys.executable,
        "-c",
        job,
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as watcher:

        def named(text: str) -> list[int]:
            return [pid for pid in below(watcher.pid) if text in Path(f"/proc/{pid}/cmdline").read_bytes().decode()]

        assert within(lambda: bool(named("stderr_tee.py")) and bool(named("finished")))
        (companion,) = named("stderr_tee.py")
        (rank,) = (pid for pid in named("finished") if pid != watcher.pid)
        for pid in (companion, watcher.pid):
            os.kill(pid, signal.SIGKILL)
        try:
            if option is not None:
                assert within(lambda: not is_alive(rank))
            else:
                assert within((tmp_path / "finished").exists)
                assert is_alive(rank)
        finally:
            if is_alive(rank):
                os.kill(rank, signal.SIGKILL)
