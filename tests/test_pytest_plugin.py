"""The pytest plugin: silent unless asked, and then the doctor's report is the failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

REPLICAS = """
import pytest, torch, torch.distributed as dist

@pytest.fixture(autouse=True, scope="session")
def group():
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()

def test_in_sync(assert_in_sync):
    torch.manual_seed(0)
    assert_in_sync(torch.nn.Linear(4, 2))

def test_out_of_sync(assert_in_sync):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        model.bias[1] += dist.get_rank()
    assert_in_sync(model)
"""


TRAINING = """
import pytest, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

@pytest.fixture(autouse=True, scope="session")
def group(tmp_path_factory):
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()

def test_training(assert_training_in_sync):
    with assert_training_in_sync():
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

def test_nothing(assert_training_in_sync):
    with assert_training_in_sync():
        pass
"""


def run(*command: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def test_replicas_that_differ_fail_the_test_with_tensor_and_ranks(tmp_path: Path) -> None:
    (tmp_path / "test_replicas.py").write_text(REPLICAS)
    ended = run(
        "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "test_replicas.py", cwd=tmp_path,
    )  # fmt: skip
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "weights-differ" in ended.stdout
    assert "bias[1]" in ended.stdout


def test_training_without_a_step_fails_with_the_report_and_sound_training_passes(tmp_path: Path) -> None:
    (tmp_path / "test_training.py").write_text(TRAINING)
    ended = run("pytest", "-q", "-p", "no:cacheprovider", "test_training.py", cwd=tmp_path)
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "undecided: no optimizer made a step in the tracked block" in ended.stdout


@pytest.mark.parametrize("judged", [False, True], ids=["not asked", "asked"])
def test_a_sick_machine_ends_the_session_only_where_that_was_asked(tmp_path: Path, judged: bool) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    ended = run(
        "pytest", "-q", "-p", "no:cacheprovider", *(["--ddpdoctor-env"] if judged else []), "test_nothing.py",
        cwd=tmp_path, GLOO_SOCKET_IFNAME="no-such-interface",
    )  # fmt: skip
    assert ended.returncode == (1 if judged else 0), ended.stdout + ended.stderr
    assert ("DDP210" in ended.stdout + ended.stderr) is judged
    assert ("1 passed" in ended.stdout) is not judged
