"""`ddpdoctor watch --verify-sync`: hangs, crashes and silent errors, under one command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.launch.sick_jobs import faults
from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS

DRIFT = """
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

first_bad, steps = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(dist.get_rank())
for step in range(steps):
    optimizer.zero_grad()
    model(torch.randn(8, 16, generator=data)).square().mean().backward()
    optimizer.step()
    if step == first_bad and dist.get_rank() == 1:
        with torch.no_grad():
            model.module.weight.mul_(1.001)
    time.sleep(0.02)
dist.destroy_process_group()
"""


FLIPS_ONCE = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

made = 0


class Faulty(torch.optim.SGD):
    def step(self, closure=None):
        global made
        super().step(closure)
        made += 1
        if made == 4 and dist.get_rank() == 1:
            self.param_groups[0]["params"][0].detach().numpy().view("i4")[3, 2] ^= 1 << 18


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = Faulty(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(dist.get_rank())
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 16, generator=data)).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
BESIDE_THE_WEIGHTS = """
import copy
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

what, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
net.register_buffer("scale", torch.ones(3))
model = DistributedDataParallel(net, broadcast_buffers=False)
ema = copy.deepcopy(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(rank)
for step in range(steps):
    batch = torch.randn(8, 16, generator=data)
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if what == "buffer" and step == 60 and rank == 1:
        net.scale.mul_(2)
    if what != "average" or step < 60 or rank == 0:
        with torch.no_grad():
            for mine, trained in zip(ema.parameters(), net.parameters()):
                mine.lerp_(trained, 0.1)
    with torch.no_grad():
        ema(batch)
    time.sleep(0.02)
dist.destroy_process_group()
"""
OPTIONS_OF_A_PROJECT = """
[tool.ddpdoctor.watch]
verify-sync = 1
recompute = true
"""


def watch(
    folder: Path, *arguments: str, options: tuple[str, ...], source: str = DRIFT
) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(source)
    launcher = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    )
    return subprocess.run(
        (sys.executable, "-m", "ddpdoctor", "watch", *options, "--", *launcher, str(script), *arguments),
        capture_output=True, text=True, timeout=240, check=False, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_an_error_that_came_once_is_named_with_its_rank_although_there_are_two(tmp_path: Path) -> None:
    """With the options of a project file."""
    (tmp_path / "pyproject.toml").write_text(OPTIONS_OF_A_PROJECT)
    ended = watch(tmp_path, options=(), source=FLIPS_ONCE)
    assert ended.returncode == 1, ended.stderr
    assert "DDP525 step-not-reproducible: at step 1 of 6, Faulty.step gave other weights on rank 1" in ended.stderr, (
        ended.stderr
    )
    assert "made again, the step gives rank 1 the weights of the others" in ended.stderr


@pytest.mark.slow
def test_a_job_whose_replicas_part_is_ended_if_wanted_and_its_case_says_the_same(tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    ended = watch(tmp_path, "60", "20000", options=("--verify-sync=5", "--on-divergence", "stop", "--case", str(case)))
    assert ended.returncode == 1, ended.stderr
    verdict = ended.stderr.rpartition("ended by --on-divergence stop")[2]
    assert "DDP503 weights-differ" in verdict, ended.stderr
    assert "on rank 1" in verdict
    made, found = (
        re.search(text, ended.stderr) for text in (r"2 ranks, ([\d,]+) steps.*ended by", r"at step ([\d,]+):")
    )
    assert made is not None, ended.stderr
    assert found is not None, ended.stderr
    assert int(made[1].replace(",", "")) > int(found[1].replace(",", "")), ended.stderr
    again = subprocess.run(
        (sys.executable, "-m", "ddpdoctor", "diagnose", str(case)),
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert "DDP503 weights-differ" in again.stdout, again.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "found"), [("buffer", "DDP508 buffers-differ"), ("average", "DDP528 unwrapped-model-differs")]
)
def test_a_job_is_ended_where_buffers_or_an_average_of_the_weights_part(what: str, found: str, tmp_path: Path) -> None:
    """Long before a minute has passed, after which all rules are asked."""
    options = ("--verify-sync=5", "--on-divergence", "stop")
    ended = watch(tmp_path, what, "2000", options=options, source=BESIDE_THE_WEIGHTS)
    assert ended.returncode == 1, ended.stderr
    assert f"FAIL {found}" in ended.stderr.rpartition("ended by --on-divergence stop")[2], ended.stderr


@pytest.mark.matrix
def test_buffers_that_each_rank_updates_on_its_own_end_no_job(tmp_path: Path) -> None:
    options = ("--verify-sync=5", "--on-divergence", "stop")
    ended = watch(tmp_path, "nothing", "600", options=options, source=BESIDE_THE_WEIGHTS)
    assert ended.returncode == 0, ended.stderr
    assert "ending the job" not in ended.stderr
    assert "FAIL" not in ended.stderr


@pytest.mark.slow
def test_a_rank_whose_forwards_compute_something_else_is_named() -> None:
    fault = faults()["DDP527"]
    launcher = (
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "3",
        "--master-port",
        str(free_port()),
    )
    ended = subprocess.run(
        (sys.executable, "-m", "ddpdoctor", "watch", "--verify-sync", "--probe-every", "2", "--", *launcher, str(fault),
         "--culprit", "1", "--at-step", "9", "--steps", "40"),
        capture_output=True, text=True, timeout=240, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    assert "DDP527 loss-computed-differently: before step 10 of 40, rank 1" in ended.stderr, ended.stderr


@pytest.mark.slow
def test_a_healthy_job_is_left_alone(tmp_path: Path) -> None:
    ended = watch(tmp_path, "-1", "200", options=("--verify-sync",))
    assert ended.returncode == 0, ended.stderr
    assert re.search(
        r"nothing found: 2 ranks, 200 steps, .*, replicas compared at [1-9]\d* steps?$", ended.stderr, re.MULTILINE
    )
    assert "DDP" not in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--on-divergence", "stop"),
        ("--verify-sync=-1",),
        ("--verify-sync=often",),
        ("--probe-every", "5"),
        ("--recompute",),
    ],
)
def test_mistakes_are_told(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", *options, "--", "true"]) == 2
    assert "--verify-sync" in capsys.readouterr().err


def test_an_option_of_the_jobs_own_stays_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--quiet", "echo", "--verify-sync"]) == 0
    assert capfd.readouterr().out == "--verify-sync\n"
