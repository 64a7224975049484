"""The companion of a watched job: killed, stopped, or alone, it costs the job neither its stderr nor its life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddpdoctor.launch.companion import PROGRAM
from ddpdoctor.launch.observed_job import observe
from ddpdoctor.launch.private_directory import private_directory
from tests.waiting import within

LINES = """
import sys, time
for number in range(int(sys.argv[1])):
    print("line", number, file=sys.stderr, flush=True)
    time.sleep(0.02)
"""
# The watcher has seen the job's end, and is killed while it reports.
REPORTING = """
import sys, time
from ddpdoctor.launch.observed_job import observe
from ddpdoctor.launch.private_directory import private_directory
with private_directory() as folder:
    with observe(["true"], environ={}, mark="NOBODY=has-this", folder=folder, die_with_us=False) as job:
        while job.wait(0.05) is None: pass
        job.drain()
        print("ready", flush=True)
        time.sleep(600)
"""


def companions() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if str(PROGRAM) in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_the_job_keeps_its_stderr_where_its_companion_is_stopped_or_killed(number: signal.Signals) -> None:
    """Without a companion a Python job that logs would end with BrokenPipeError."""
    command = [sys.executable, "-c", LINES, "60"]
    with (
        private_directory() as folder,
        observe(command, environ={}, mark="NOBODY=has-this", folder=folder, die_with_us=False) as job,
    ):
        assert within(lambda: any(file.stat().st_size for file in job.stderr_files()))
        (companion,) = companions()
        companion.send_signal(number)
        assert within(lambda: job.wait(0.05) is not None)
        assert job.wait(0) == 0
        job.drain()
        kept = b"".join(file.read_bytes() for file in job.stderr_files())
    assert kept.endswith(b"line 59\n")
    assert within(lambda: not companions())


def test_a_companion_that_fails_by_itself_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with an error code, as where it has no memory, and not by a signal: the job has not closed its stderr."""
    failing = tmp_path / "failing.py"
    failing.write_text(
        f"import sys, os\nif not os.path.exists({str(tmp_path / 'failed')!r}):\n"
        f"    open({str(tmp_path / 'failed')!r}, 'w'); sys.exit(1)\n"
        f"os.execv(sys.executable, [sys.executable, '-I', '-S', {str(PROGRAM)!r}, *sys.argv[1:]])\n"
    )
    monkeypatch.setattr("ddpdoctor.launch.companion.PROGRAM", failing)
    with (
        private_directory() as folder,
        observe(
            [sys.executable, "-c", LINES, "60"], environ={}, mark="NOBODY=has-this", folder=folder, die_with_us=False
        ) as job,
    ):
        assert within(lambda: job.wait(0.05) is not None)
        assert job.wait(0) == 0
        assert within(
            lambda: (job.drain(), b"".join(map(Path.read_bytes, job.stderr_files())))[1].endswith(b"line 59\n")
        )
    assert (tmp_path / "failed").exists()


def test_a_job_does_not_wait_for_ever_for_companions_that_all_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: they were replaced for ever, while the job's stderr was full and the job hung."""
    failing = tmp_path / "failing.py"
    failing.write_text("raise SystemExit(1)\n")
    monkeypatch.setattr("ddpdoctor.launch.companion.PROGRAM", failing)
    monkeypatch.setattr("ddpdoctor.launch.companion.RESTART_SECONDS", 0.0)
    writes = "import sys\nfor _ in range(1000): print('x' * 1000, file=sys.stderr, flush=True)\n"
    with (
        private_directory() as folder,
        observe(
            [sys.executable, "-c", writes], environ={}, mark="NOBODY=has-this", folder=folder, die_with_us=False
        ) as job,
    ):
        assert within(lambda: job.wait(0.05) is not None)
        assert job.wait(0) not in {None, 0}
        assert job.has_lost_stderr


def test_no_directory_is_left_where_the_watcher_is_killed_while_it_reports(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", REPORTING],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "ready\n"
        assert list(tmp_path.iterdir())
        watcher.kill()
    assert within(lambda: not list(tmp_path.iterdir()))


def test_no_directory_is_left_where_the_watcher_and_its_companion_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            REPORTING.replace('["true"]', '["sleep", "600"]').replace("pass\n", 'print("ready", flush=True)\n'),
        ],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "ready\n"
        below = psutil.Process(watcher.pid).children()
        watcher.send_signal(signal.SIGSTOP)  # it must not start another companion
        for process in below:
            if str(PROGRAM) in process.cmdline():
                process.kill()
        watcher.kill()
    try:
        assert within(lambda: not list(tmp_path.iterdir()))
    finally:
        for process in below:
            if process.is_running():
                process.kill()


def test_the_job_finds_its_stderr_closed_where_ours_is_closed() -> None:
    """As without ddpdoctor: `2>&1 | head` ends a job that goes on writing."""
    code = (
        "import sys\nfrom ddpdoctor.launch.observed_job import observe\n"
        "from ddpdoctor.launch.private_directory import private_directory\n"
        "with private_directory() as folder, observe(sys.argv[1:], environ={}, mark='NOBODY=has-this', folder=folder, "
        "die_with_us=False) as job:\n"
        "    while (code := job.wait(0.05)) is None: pass\n"
        "    print(code)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, sys.executable, "-c", LINES, "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        assert watcher.stderr is not None
        watcher.stderr.readline()
        watcher.stderr.close()
        assert watcher.stdout.readline() not in {"", "0\n"}
