"""`ddpdoctor watch` is not noticed by the job, and explains one that hangs while it hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from ddpdoctor.launch.private_directory import REMOVER
from tests.waiting import PROGRAM_SECONDS, within

WATCH = (sys.executable, "-m", "ddpdoctor", "watch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
JOB = """
import signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def wake(*_):
    raise InterruptedError

def fetch(seconds):
    try:
        time.sleep(seconds)  # the line
    except InterruptedError:
        pass

signal.signal(signal.SIGUSR1, wake)

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    if step == 3 and dist.get_rank() == 1:
        fetch(float(sys.argv[1]))
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
dist.barrier()
if dist.get_rank() == 0:
    print("the job is done")
dist.destroy_process_group()
"""


def watch(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WATCH, *arguments], input=stdin, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def processes_with(mark: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_stdin_output_and_exit_code_are_the_jobs_own() -> None:
    ended = watch("--", "sh", "-c", "cat; echo to stderr >&2; exit 7", stdin="from stdin\n")
    assert (ended.returncode, ended.stdout) == (7, "from stdin\n")
    assert ended.stderr.startswith("to stderr\n")
    assert "no process that ddpdoctor sees called init_process_group" in ended.stderr


def test_a_job_that_a_signal_ends_gives_128_and_the_signal() -> None:
    assert watch("--", "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL


def test_signals_reach_the_job(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    job = f"trap 'exit 9' TERM; touch {ready}; while :; do sleep 0.1; done"
    process = subprocess.Popen([*WATCH, "--", "sh", "-c", job], stderr=subprocess.DEVNULL)
    assert within(ready.exists)
    process.terminate()
    assert process.wait(timeout=PROGRAM_SECONDS) == 9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program"], "no-such-program: program not found"),
        (["--distributed-debug", "detail", "--", "true"], "its constructor crashes with SIGSEGV in torch 2.13"),
        (["--format", "json", "--", "true"], "--format json needs --output: stdout belongs to the job"),
        (["--recompute", "--", "true"], "--recompute needs --verify-sync"),
    ],
)
def test_mistakes_are_told(arguments: list[str], said: str) -> None:
    ended = watch(*arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def lasts(process: psutil.Process) -> bool:
    """Whether a process of the job below is there to stay: no helper of `watch`, and none of its short naps.

    A nap is a copy of its shell until it has become `sleep 0.1`.
    """
    try:
        command = process.cmdline()
        parent = process.parent()
        is_copy = parent is not None and parent.cmdline() == command
        is_ours = REMOVER in command or "stderr_tee.py" in " ".join(command)
    except psutil.NoSuchProcess:
        return False
    return bool(command) and not is_copy and command != ["sleep", "0.1"] and not is_ours


@pytest.mark.parametrize("with_us", [False, True], ids=["goes on", "--kill-on-hang"])
def test_when_we_are_killed_the_job_goes_on_or_ends_as_asked(with_us: bool, tmp_path: Path) -> None:
    mark = f"{tmp_path}/mark"
    job = f"touch {mark}; setsid sleep 601 & while :; do echo {mark} >&2; sleep 0.1; done"
    options = ["--kill-on-hang"] if with_us else []
    process = subprocess.Popen([*WATCH, *options, "--", "sh", "-c", job], stderr=subprocess.DEVNULL)
    assert within(Path(mark).exists)
    theirs = [child for child in psutil.Process(process.pid).children(recursive=True) if lasts(child)]
    process.kill()
    process.wait(timeout=PROGRAM_SECONDS)
    try:
        assert theirs
        if with_us:
            assert within(lambda: not any(child.is_running() for child in theirs))
        else:
            time.sleep(0.5)  # five writes to a stderr that nobody reads any more would have ended it
            assert all(child.is_running() for child in theirs)
    finally:
        for child in theirs:
            if child.is_running():
                child.kill()


def test_nothing_of_ours_is_left_where_we_are_killed_and_the_job_has_ended(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        mark = tmp_path / "mark"
        process = subprocess.Popen(
            [*WATCH, "--", "sh", "-c", f"touch {mark}; sleep 3"],
            env={**os.environ, "TMPDIR": place, "XDG_RUNTIME_DIR": ""}, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert within(mark.exists)
        process.kill()
        process.wait(timeout=PROGRAM_SECONDS)
        assert list(Path(place).iterdir())
        assert within(lambda: not list(Path(place).iterdir()))


def test_the_verdict_comes_while_the_job_hangs_hang_says_the_same_and_a_job_that_goes_on_has_recovered(
    script: Path, tmp_path: Path
) -> None:
    output = tmp_path / "report.json"
    command = [*WATCH, "--stall-after", "2", "--format", "json", "-o", str(output), "--case", str(tmp_path / "case")]
    process = subprocess.Popen(
        [*command, "--", *TORCHRUN, str(script), "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        verdict_while_it_hangs(process, output, script)
        rank_of(script, 1).send_signal(signal.SIGUSR1)
        stdout, stderr = process.communicate(timeout=PROGRAM_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=PROGRAM_SECONDS)
    assert process.returncode == 0, stderr
    assert stdout == "the job is done\n"
    assert "DDP307" in stderr
    assert "then the job resumed" in stderr
    report = json.loads(output.read_text())
    assert report["findings"] == []
    assert any("no progress for" in note for note in report["notes"])
    assert within(lambda: not processes_with(str(script)))


def rank_of(script: Path, rank: int) -> psutil.Process:
    return next(found for found in processes_with(str(script)) if found.environ().get("RANK") == str(rank))


def verdict_while_it_hangs(process: subprocess.Popen[str], output: Path, script: Path) -> None:
    assert within(lambda: output.exists() and json.loads(output.read_text())["findings"], seconds=PROGRAM_SECONDS)
    assert process.poll() is None
    (finding,) = json.loads(output.read_text())["findings"]
    assert (finding["code"], finding["ranks"]) == ("DDP307", [1])
    line = JOB.splitlines().index("        time.sleep(seconds)  # the line") + 1
    assert (finding["where"][0]["file"], finding["where"][0]["line"]) == (str(script), line)
    assert finding["measured"]["waiting"] == [0]

    looked = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "hang", str(rank_of(script, 0).pid), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert looked.returncode == 1, looked.stderr
    report = json.loads(looked.stdout)
    assert [(found["code"], found["ranks"]) for found in report["findings"]] == [("DDP307", [1])]
    assert any(note.startswith("rank 0: waits in a collective (backward)") for note in report["notes"])


def test_kill_on_hang_ends_the_whole_job(script: Path) -> None:
    ended = watch("--stall-after", "2", "--kill-on-hang", "--", *TORCHRUN, str(script), "600")
    assert ended.returncode == 1
    assert "DDP307 rank-stuck-outside-collective: rank 1 in fetch (job.py:12) sleeps" in ended.stderr
    below = ended.stderr.partition("closing signal SIGTERM")[
        2
    ]  # the whole verdict, below all that torchrun says of its end
    assert " -m torch.distributed.run --standalone --nproc-per-node 2 " in below
    assert "FAIL DDP307 rank-stuck-outside-collective: rank 1 in fetch" in below
    assert ended.stderr.count("DDP307 rank-stuck-outside-collective: ") == 1
    assert re.search(r"^\S+ -m torch\.distributed\.run .*job\.py 600: 2 ranks, ", below, re.MULTILINE)
    assert ended.stderr.splitlines()[-1] == "━" * 100
    assert not processes_with(str(script))


def test_a_hang_that_nothing_explains_is_looked_at_thrice_and_called_undecided(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    options = ["--stall-after", "2", "--kill-on-hang", "--ignore", "DDP3", "--format", "json", "-o", str(output)]
    ended = watch(*options, "--", *TORCHRUN, str(script), "600")
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("next attempt in 2 s") >= 2  # on a busy machine once more, before the first step
    assert "undecided: no progress for" in ended.stderr
    reason, *ranks = json.loads(output.read_text())["undecided"]
    assert "the evidence does not explain it" in reason
    assert any("sleeps at" in line and "in fetch" in line for line in ranks), ranks
    assert not processes_with(str(script))


def test_a_healthy_job_gets_one_line(script: Path) -> None:
    environ = {**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*WATCH, "--", *TORCHRUN, str(script), "0"],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        env=environ,
    )
    assert (ended.returncode, ended.stdout) == (0, "the job is done\n")
    assert re.fullmatch(r"ddpdoctor: nothing found: 2 ranks, 6 steps, [^\n]*watched for \d+ s\n", ended.stderr), (
        ended.stderr
    )


def test_a_job_that_a_signal_ended_is_said_so(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    job = subprocess.Popen(
        [*WATCH, "--", "sh", "-c", f"touch {mark}; exec sleep 60"], stderr=subprocess.PIPE, text=True
    )
    with job:
        assert within(mark.exists)
        job.terminate()
        _, said = job.communicate(timeout=PROGRAM_SECONDS)
    assert job.returncode == 128 + signal.SIGTERM
    assert "; SIGTERM ended the job; the job's exit code is 143\n" in said


def test_quiet_leaves_a_healthy_job_without_a_word() -> None:
    ended = watch("--quiet", "--", "sh", "-c", "true")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "nothing found" not in ended.stderr


def test_a_script_without_ranks_is_told_what_was_looked_at_and_a_known_cause_stands_alone(tmp_path: Path) -> None:
    healthy = watch("--", sys.executable, "-c", "print(7)")
    assert (healthy.returncode, healthy.stdout) == (0, "7\n")
    last = healthy.stderr.splitlines()[-1]
    assert last.startswith(
        "ddpdoctor: note: only stderr and the exit code were looked at, not the ranks: no process that ddpdoctor sees "
        "called init_process_group ("
    )
    absent = watch("--", sys.executable, str(tmp_path / "nope.py"))
    assert absent.returncode == 1
    assert "FAIL DDP401 rank-raised: the script does not exist" in absent.stderr
    assert "init_process_group" not in absent.stderr
