"""`ddpdoctor verify-sync SCRIPT` on scripts that fail, end oddly, or leave it nothing to look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.small_disks import small_disk

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]
BEGIN = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 8) * (step + dist.get_rank())).sum().backward()
        optimizer.step()

"""


def verify(folder: Path, script: str, *more: str, **environ: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and stderr for a script in `folder` on two ranks; nothing is left in its temporary directory."""
    (folder / "train.py").write_text(script)
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    options = ("--nproc", "2", "--every", "1", "--format", "json", *more)
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "verify-sync", *options, "train.py"],
        cwd=folder, capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(temporary), **environ},
    )  # fmt: skip
    assert not list(temporary.iterdir())
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {}, ended.stderr


def test_a_script_that_raises_keeps_its_traceback_and_its_exit_code(tmp_path: Path) -> None:
    code, report, stderr = verify(tmp_path, f"{BEGIN}train(3)\nraise ValueError('no data')\n")
    assert code == 1
    assert report["findings"] == []
    assert "ValueError: no data" in stderr
    assert any(
        "train.py exited with code 1; this report covers the steps before that" in note for note in report["notes"]
    )


def test_a_fault_before_the_script_raises_is_still_found(tmp_path: Path) -> None:
    fault = "model.module.bias.data.add_(dist.get_rank())\n"
    code, report, _ = verify(tmp_path, f"{BEGIN}train(2)\n{fault}train(2)\nraise ValueError\n")
    assert code == 1
    assert (report["findings"][0]["code"], report["findings"][0]["ranks"]) == ("DDP509", [1])


def test_os_exit_with_an_error_leaves_no_last_words_and_that_is_said(tmp_path: Path) -> None:
    code, report, stderr = verify(tmp_path, f"{BEGIN}train(3)\ndist.barrier()\nos._exit(3)\n")
    assert (code, report["findings"]) == (1, []), stderr
    assert any("2 of 2 ranks ended without a final record" in note for note in report["notes"])


@pytest.mark.parametrize("sick", [False, True])
def test_the_last_weights_are_compared_where_ranks_end_by_os_exit(tmp_path: Path, *, sick: bool) -> None:
    fault = "model.module.bias.data.add_(dist.get_rank())\n" if sick else ""
    code, report, stderr = verify(tmp_path, f"{BEGIN}train(3)\n{fault}dist.barrier()\nos._exit(0)\n", "--every", "10")
    assert ([one["code"] for one in report["findings"]], code) == ((["DDP503"], 1) if sick else ([], 0)), stderr
    assert not any("without a final record" in note for note in report["notes"])


def test_a_script_without_ddp_and_without_steps_is_undecided(tmp_path: Path) -> None:
    begin = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    code, report, _ = verify(tmp_path, f"{begin}dist.barrier()\ndist.destroy_process_group()\n")
    assert code == 3
    assert any("wrapped no model in DistributedDataParallel" in reason for reason in report["undecided"])


def test_a_model_that_is_wrapped_twice_is_followed_and_said(tmp_path: Path) -> None:
    code, report, stderr = verify(tmp_path, f"{BEGIN}model = DistributedDataParallel(model)\ntrain(3)\n")
    assert report["findings"] == [], report["findings"]
    assert code == 0, stderr
    assert any(
        "train.py:16 in <module> wraps a model in DistributedDataParallel that" in note for note in report["notes"]
    )


def test_the_scripts_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os; os.environ['OWN_RATE'] = '0.2'\n")
    fault = "optimizer.param_groups[0]['lr'] += float(os.environ['OWN_RATE']) * dist.get_rank()\n"
    code, report, stderr = verify(tmp_path, f"{BEGIN}{fault}train(2)\n", PYTHONPATH=str(own))
    assert report["findings"][0]["code"] == "DDP506", stderr
    assert code == 1


def test_a_full_disk_costs_the_verdict_and_never_the_job(tmp_path: Path) -> None:
    end = "train(300)\nprint('trained to the end', dist.get_rank())\ndist.destroy_process_group()\n"
    with small_disk(kilobytes=128) as disk:
        code, report, stderr = verify(tmp_path, BEGIN + end, XDG_RUNTIME_DIR=str(disk))
        assert stderr.count("trained to the end") == 2
        assert "Traceback" not in stderr
        assert (code, report["findings"]) == (3, [])
        (why,) = report["undecided"]
        assert f"{disk} is full" in why
        assert not list(disk.iterdir())


def test_a_case_that_cannot_be_written_leaves_the_verdict(tmp_path: Path) -> None:
    fault = "optimizer.param_groups[0]['lr'] += dist.get_rank()\n"
    gone = f"open({str(tmp_path / 'case')!r}, 'w').close()\n"  # what is no directory any more
    code, report, stderr = verify(tmp_path, f"{BEGIN}{fault}train(2)\n{gone}", "--case", str(tmp_path / "case"))
    assert report["findings"][0]["code"] == "DDP506"
    assert code == 4
    assert f"cannot write {tmp_path / 'case'}" in stderr


def test_options_of_the_script_that_torchrun_could_take_for_its_own_reach_the_script(tmp_path: Path) -> None:
    options = ["--log", "7", "--nproc", "7", "--no-py", "--node", "7"]
    script = f"{BEGIN}assert sys.argv[1:] == {options!r}, sys.argv\ntrain(3)\n"
    (tmp_path / "train.py").write_text(script)
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "verify-sync", "-n", "2", "train.py", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
