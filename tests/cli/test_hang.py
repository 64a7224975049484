"""`ddpdoctor hang` where it may not look, where there is nothing to look with, and at ranks that stop or die meanwhile.

The ranks are small programs with a launcher's variables: rank 0 is in a collective, as far as a stack tells, rank 1 sleeps.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.cli import run
from ddpdoctor.ranks import snapshot, stacks
from tests.waiting import PROGRAM_SECONDS

HANG = (sys.executable, "-m", "ddpdoctor", "hang")
RANK = """
import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "torch", "distributed"))
from distributed_c10d import all_reduce

def fetch():
    time.sleep(600)  # line 7

user = int(os.environ.get("AS_USER", os.geteuid()))
os.setresuid(user, user, user)
print("ready", flush=True)
fetch() if os.environ["RANK"] == "1" else all_reduce()
"""
COLLECTIVE = "import time\ndef all_reduce():\n    time.sleep(600)\n"
VERDICT = "DDP307 rank-stuck-outside-collective: rank 1 in fetch (train.py:7) sleeps; rank 0 waits for it in all_reduce"
NOBODY = 65534
LIAR = f"import os, time; os.setresuid({NOBODY - 1}, {NOBODY - 1}, {NOBODY - 1}); time.sleep(60)"
Start = Callable[..., list[int]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the two ranks of a job, below the command `under` and at port `port`, and returns their processes."""
    script = tmp_path / "train.py"
    script.write_text(RANK)
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    (tmp_path / "torch" / "distributed" / "distributed_c10d.py").write_text(COLLECTIVE)
    for folder in (tmp_path, *tmp_path.parents):  # pytest makes them for the owner alone
        if folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o755)
    running: list[subprocess.Popen[str]] = []

    def two_ranks(*under: str, port: int = 29411) -> list[int]:
        ours = []
        for rank in ("0", "1"):
            environ = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            process = subprocess.Popen(
                [*under, sys.executable, "-u", str(script)],
                env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
            running.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
            ours.append(next((child for child in _children(process.pid)), process.pid) if under else process.pid)
        return ours

    yield two_ranks
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def hang(*arguments: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*under, *HANG, *arguments], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )


def as_nobody() -> tuple[str, ...]:
    """The command that runs the rest as a user who owns nothing; it must reach this Python and our files."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("to become another user needs root and setpriv")
    command = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if subprocess.run([*command, *HANG, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("another user may not run this Python")
    return command


def test_ranks_of_another_user_are_seen_by_root(start: Start) -> None:
    ended = hang(str(start(*as_nobody())[0]))
    assert VERDICT in ended.stdout


def test_another_user_is_told_whose_the_ranks_are(start: Start) -> None:
    nobody = as_nobody()
    pids = start()
    ended = hang(str(pids[0]), under=nobody)
    assert ended.returncode == 3
    wanted = f"process {pids[0]} belongs to user root: run ddpdoctor as that user, or as root"
    assert ended.stderr == f"ddpdoctor: this job cannot be inspected: {wanted}\n"
    found = hang(under=nobody)
    assert found.returncode == 3
    assert "no rank of a PyTorch job on this host can be inspected: process" in found.stderr
    assert "belongs to user" in found.stderr


def test_a_container_without_ptrace_is_told_its_flag_and_nothing_is_called_healthy(start: Start) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("to give up a capability needs root and setpriv")
    pids = start()
    ended = hang(str(pids[0]), under=("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"))
    assert ended.returncode == 3
    assert (
        "undecided: no stacks of ranks 0-1: the container forbids ptrace: start the container with `--cap-add=SYS_PTRACE`"
        in ended.stdout
    )


def test_without_py_spy_the_answer_is_how_to_get_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = start()
    monkeypatch.setattr(stacks.shutil, "which", lambda *_args, **_named: None)
    assert run(["hang", str(pids[0])]) == 3
    assert "undecided: no stacks of ranks 0-1: py-spy is not installed: `pip install py-spy`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scope", "user", "said"),
    [
        (
            "1",
            1000,
            "is 1, so only a parent or a process with CAP_SYS_PTRACE can trace it: run ddpdoctor as root, or `sudo",
        ),
        ("2", 1000, "is 2, so only a process with CAP_SYS_PTRACE can trace it: run ddpdoctor as root, or `sudo sysctl"),
        (
            "2",
            0,
            "is 2, so only a process with CAP_SYS_PTRACE can trace it: start the container with `--cap-add=SYS_PTRACE`",
        ),
        ("3", 1000, "is 3, so no process can be traced, not even by root, until this host is rebooted"),
    ],
)
def test_yamas_ptrace_scope_is_named_with_what_it_still_allows(
    scope: str, user: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stacks._read
    monkeypatch.setattr(stacks, "_read", lambda path: scope if path == stacks.YAMA else real(path))
    monkeypatch.setattr(stacks, "_status", lambda _path: {"Uid": f"{user}\t{user}", "CapEff": "0"})
    assert f"/proc/sys/kernel/yama/ptrace_scope {said}" in stacks.why_forbidden(1)


def test_a_stopped_rank_is_named(start: Start) -> None:
    pids = start()
    os.kill(pids[1], signal.SIGSTOP)
    ended = hang(str(pids[0]), "--format", "json")
    assert [(found["code"], found["ranks"]) for found in json.loads(ended.stdout)["findings"]] == [("DDP310", [1])]


def test_a_rank_that_dies_while_it_is_looked_at_is_said_to_have(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = start()
    look = snapshot.py_spy_each

    def dying(looked_at: Sequence[int], **options: Any) -> object:
        if pids[1] in looked_at:
            os.kill(pids[1], signal.SIGKILL)
        return look(looked_at, **options)

    monkeypatch.setattr(snapshot, "py_spy_each", dying)
    run(["hang", str(pids[0])])
    said = capsys.readouterr().out
    assert f"note: rank 1 ended during the inspection: process {pids[1]} has ended" in said
    assert "note: rank 0: waits in a collective (all_reduce)" in said


def test_ranks_in_a_pid_namespace_are_seen_from_outside(start: Start) -> None:
    unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a PID namespace needs root")
    ended = hang(str(start(*unshare)[0]))
    assert VERDICT in ended.stdout


def test_several_jobs_on_one_host_are_listed(start: Start) -> None:
    first, second = start(port=29411), start(port=29412)
    ended = hang()
    assert ended.returncode == 2
    for pids in (first, second):
        assert f"`ddpdoctor hang {pids[0]}`: ranks 0-1 of 2, " in ended.stderr


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_neither_believes_nor_waits_for_what_a_third_user_planted(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump that accuses a rank, a pipe in its place, and a process that claims to be a rank of the job."""
    planted = tmp_path / "planted"
    planted.mkdir(mode=0o755)
    os.mkfifo(planted / "dump_0")
    shutil.copy(Path(__file__).parents[1] / "data" / "recorder" / "gloo" / "rank_1", planted / "dump_1")
    os.utime(planted / "dump_1")
    os.chown(planted / "dump_1", NOBODY - 1, NOBODY - 1)
    monkeypatch.setenv("AS_USER", str(NOBODY))
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{planted}/dump_")
    monkeypatch.setenv("DDPDOCTOR_AGENT_DIR", str(planted))
    first, _ = start()
    claims = {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29411"}
    liar = subprocess.Popen([sys.executable, "-c", LIAR], env={**os.environ, **claims})
    try:
        ended = hang(str(first), "--format", "json")
    finally:
        liar.kill()
        liar.wait()
    assert [found["code"] for found in json.loads(ended.stdout)["findings"]] == ["DDP307"], ended.stdout
    assert "rank 2" not in ended.stdout
