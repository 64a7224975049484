"""`ddpdoctor env` for real: alone, under torchrun, with a rank that never comes, with a broken torch, interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddpdoctor import case
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.host import Host, PythonInstall
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS, within

ENV = (sys.executable, "-m", "ddpdoctor", "env")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def clean(**added: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in LAUNCHERS}, **added}


def env(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENV, *arguments], env=clean(**variables), capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )


def codes(document: dict, severity: str = "") -> set[str]:
    return {one["code"] for one in document["findings"] if severity in {"", one["severity"]}}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory):
    """One run on this host with a secret in its environment: the JSON document, and the case that it saved."""
    saved = tmp_path_factory.mktemp("case") / "host.json"
    variables = {"NCCL_DEBUG": "WARN", "TORCH_HUB_TOKEN": "hunter2hunter2", "HF_TOKEN": "hunter2hunter2"}
    ended = env("--format", "json", "--case", str(saved), **variables)
    return ended, json.loads(ended.stdout), saved


def test_a_host_without_gpus_is_not_sick(alone) -> None:
    ended, document, _ = alone
    assert ended.returncode == 0, ended.stdout
    assert not codes(document, "fail")
    skipped = {one["code"]: one["reason"] for one in document["outcomes"] if one["outcome"] == "skipped"}
    assert "no NVIDIA GPU" in skipped["DDP127"]


def test_stdout_is_json_and_nothing_else_is_said(alone) -> None:
    ended, document, _ = alone
    assert document["schema"] == "ddpdoctor.report/1"
    assert document["measured"]["facts"]["torch"]
    assert ended.stderr == ""


def test_the_case_is_judged_alike_again_and_keeps_no_secret(alone) -> None:
    _, document, saved = alone
    again = diagnose(case.load(saved))
    assert [finding.message for finding in again.findings] == [one["message"] for one in document["findings"]]
    assert "hunter2" not in saved.read_text()
    assert "hunter2" not in json.dumps(document)


def test_the_case_holds_what_a_host_is(alone) -> None:
    evidence = case.load(alone[2])
    for kind in (Host, PythonInstall, TorchBuild):
        assert evidence.per_rank(kind), kind


def test_markdown_is_a_bug_report_in_itself(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    secrets = {
        "HF_TOKEN": "hunter2hunter2",
        "TORCH_HUB_TOKEN": "hunter2hunter2",
        "TORCH_HOME": "https://me:hunter2@host/x",
    }
    ended = env("--format", "markdown", "--output", str(report), NCCL_DEBUG="WARN", **secrets)
    assert ended.returncode == 0
    assert "hunter2" not in report.read_text()
    assert "| TORCH_HOME | https://me:&lt;redacted>@host/x |" in report.read_text()
    for row in ("| python |", "| torch |", "| memory |", "| NCCL_DEBUG | WARN |"):
        assert row in report.read_text()
    assert "checks ran" in ended.stdout


def test_a_torch_that_cannot_be_imported_is_the_finding(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    ended = env("--format", "json", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1
    first = json.loads(ended.stdout)["findings"][0]
    assert first["code"] == "DDP103"
    assert "ImportError: libcudart.so.13: cannot open shared object file" in first["message"]


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory):
    """Two ranks under torchrun, the second with a variable of its own."""
    minority = '[ "$RANK" = 1 ] && export NCCL_IB_DISABLE=1; exec "$@"'
    saved = tmp_path_factory.mktemp("case") / "launch.json"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python",
        "bash", "-c", minority, "bash", *ENV, "--format", "json", "--case", str(saved), "--output", f"{saved}.report",
    ]  # fmt: skip
    ended = subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    return ended, json.loads(Path(f"{saved}.report").read_text()), saved


def test_ranks_of_a_launch_are_compared_and_the_odd_one_is_named(launched) -> None:
    ended, document, _ = launched
    (differs,) = [one for one in document["findings"] if one["code"] == "DDP118"]
    assert differs["message"].startswith("NCCL_IB_DISABLE is unset on rank 0, 1 on rank 1")
    assert differs["measured"]["values"] == {"unset": [0], "1": [1]}
    assert ended.returncode == 1


def test_rank_0_alone_speaks(launched) -> None:
    ended, _, _ = launched
    assert ended.stdout.count("checks ran") == 1


def test_every_rank_is_in_the_case(launched) -> None:
    evidence = case.load(launched[2])
    assert [facts.rank for facts in evidence.ranks] == [0, 1]
    hosts = evidence.per_rank(Host)
    assert hosts is not None
    assert hosts.ranks == (0, 1)


def test_a_rank_that_never_comes_is_named_and_leaves_the_report_undecided() -> None:
    ended = env(
        "--format", "json", "--deadline", "4", RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )  # fmt: skip
    document = json.loads(ended.stdout)
    assert ended.returncode == 3
    assert document["undecided"] == ["rank 1 of 2 did not join within 4 s"]
    (absent,) = [one for one in document["findings"] if one["code"] == "DDP205"]
    assert absent["ranks"] == [1]


def test_two_processes_of_one_rank_are_named_and_the_absent_one_is_explained() -> None:
    launch = clean(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    command = [*ENV, "--format", "json", "--deadline", "10", "--ignore", "DDP6"]
    both = [subprocess.Popen(command, env=launch, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=PROGRAM_SECONDS)[0] for process in both]
    (document,) = [json.loads(text) for text in said if text]
    assert document["findings"][0]["code"] == "DDP206"
    (absent,) = [one for one in document["findings"] if one["code"] == "DDP205"]
    assert absent["explained_by"] == "DDP206"


def test_ctrl_c_in_the_middle_ends_everything(tmp_path: Path) -> None:
    """`import torch` hangs; the interrupt must reach it, and the exit code says what happened."""
    (tmp_path / "torch.py").write_text("import pathlib, time\npathlib.Path(__file__ + '.up').touch()\ntime.sleep(600)")
    process = subprocess.Popen([*ENV], env=clean(PYTHONPATH=str(tmp_path)), stderr=subprocess.PIPE, text=True)
    up = tmp_path / "torch.py.up"
    assert within(up.exists)
    below = psutil.Process(process.pid).children(recursive=True)
    assert below
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PROGRAM_SECONDS)
    assert process.returncode == 130
    assert stderr == "ddpdoctor: interrupted\n"
    assert within(lambda: not any(map(alive, below)))


def test_sigkill_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import pathlib, time\npathlib.Path(__file__ + '.up').touch()\ntime.sleep(600)")
    process = subprocess.Popen([*ENV], env=clean(PYTHONPATH=str(tmp_path)))
    up = tmp_path / "torch.py.up"
    assert within(up.exists)
    below = psutil.Process(process.pid).children(recursive=True)
    assert below
    process.kill()
    process.wait()
    assert within(lambda: not any(map(alive, below)))


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_read_only_place_for_the_report_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = env("--output", str(tmp_path / "file" / "report.txt"))
    assert ended.returncode == 4
    assert f"cannot write {tmp_path}/file/report.txt" in ended.stderr


def test_a_shell_with_the_variables_of_an_earlier_job_is_told_so_without_waiting() -> None:
    """A terminal, and a process group of its own, are what an interactive shell gives; without them it stays an error."""
    ours, terminal = pty.openpty()
    stale = clean(RANK="1", WORLD_SIZE="2")
    try:
        ended = subprocess.run(
            [*ENV, "--format", "json"], env=stale, stdin=terminal, start_new_session=True,
            capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(terminal)
    document = json.loads(ended.stdout)
    assert document["findings"][0]["code"] == "DDP223"
    assert document["undecided"] == ["MASTER_ADDR is not set, and torch does not say which host rank 0 of 2 is on"]
    assert ended.returncode == 1

    launched = env(RANK="1", WORLD_SIZE="2")
    assert launched.returncode == 3
    assert launched.stdout == ""
    assert "`export MASTER_ADDR=HOST MASTER_PORT=29500`" in launched.stderr


def test_a_rank_outside_the_world_says_so_itself() -> None:
    ended = env(
        "--format", "json", "--deadline", "1", RANK="2", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )  # fmt: skip
    document = json.loads(ended.stdout)
    (outside,) = [one for one in document["findings"] if one["code"] == "DDP208"]
    assert outside["ranks"] == [2]
    assert ended.returncode == 1
