"""`pip install ddpdoctor` in a training environment: it resolves there, changes no version, and the lower bounds are true.

A package index is asked; without one the tests skip with the reason. The environments are those that a resolver makes of their
few requirements, the older one as of the month after torch 2.4.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS
from tests.wheel import ROOT, build_wheel

pytestmark = pytest.mark.slow
tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11's tomllib")

MEGABYTES_INSTALLED = 32  # of which py-spy is 8, ddpdoctor 7 and pygments 5
SECONDS = 100  # for one answer of the resolver, over a slow line
NO_INDEX = (
    "Failed to fetch",
    "error sending request",
    "dns error",
    "Could not connect",
    "timed out",
    "Connection refused",
)
BESIDE = (
    "rich<15",
    "psutil",
    "pyyaml",
    "packaging",
    "jinja2",
)  # what loggers, trainers and hubs bring, and ddpdoctor uses, too


@dataclass(frozen=True)
class Environment:
    """What somebody trains with."""

    name: str
    requirements: tuple[str, ...]
    pythons: tuple[str, ...]
    until: str = ""
    """Packages of a later day do not exist."""


OF_2024 = Environment(
    "torch 2.4, numpy 1.26, pydantic 1.10",
    ("torch==2.4.1", "numpy==1.26.4", "pydantic==1.10.18", "typer==0.12.5", "click==8.1.7", *BESIDE),
    ("3.10", "3.12"),
    until="2024-09-15",
)
OF_TODAY = Environment(
    "torch 2.13, pydantic 1.10",
    ("torch==2.13.0", "numpy", "pydantic==1.10.26", *BESIDE),
    ("3.10", "3.13"),
)
CASES = [(environment, python) for environment in (OF_2024, OF_TODAY) for python in environment.pythons]

Uv = Callable[..., str]


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Uv]:
    """Runs uv with a cache of its own, and returns what it prints; skips where no index answers."""
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        pytest.skip("uv is not installed: pip install '.[dev]'")
    cache = tmp_path_factory.mktemp("uv")
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_PYTHON": sys.executable}

    def run(*arguments: str | Path) -> str:
        command = [program, *map(str, arguments), "--cache-dir", str(cache), "--no-progress"]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"the package index did not answer within {SECONDS} s")
        if ended.returncode and any(words in ended.stderr for words in NO_INDEX):
            pytest.skip(f"no package index answers: {ended.stderr.strip().splitlines()[-1]}")
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    yield run
    shutil.rmtree(cache, ignore_errors=True)


def resolved(uv: Uv, python: str, *arguments: str | Path) -> dict[str, str]:
    """The versions that the resolver chooses for a Linux host."""
    listed = uv("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", python,
                "--python-platform", "x86_64-manylinux_2_28", *arguments)  # fmt: skip
    return dict(line.split(" ")[0].split("==") for line in listed.splitlines())


@pytest.mark.parametrize(("environment", "python"), CASES, ids=lambda case: getattr(case, "name", case))
def test_no_version_of_a_training_environment_changes(
    environment: Environment, python: str, uv: Uv, tmp_path: Path
) -> None:
    """All versions that are there are fixed, and it resolves: pip keeps what is installed where it can."""
    wanted, there = tmp_path / "wanted.txt", tmp_path / "there.txt"
    wanted.write_text("\n".join(environment.requirements))
    before = resolved(uv, python, wanted, *(("--exclude-newer", environment.until) if environment.until else ()))
    there.write_text("\n".join(f"{name}=={version}" for name, version in before.items()))
    ours = resolved(uv, python, ROOT / "pyproject.toml", "--constraint", there)
    assert {name: version for name, version in ours.items() if before.get(name, version) != version} == {}
    assert not {"torch", "numpy", "pydantic"} & set(ours)


def lowest() -> list[str]:
    """Each dependency in the oldest version that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = [requirement.split(",")[0].replace(">=", "==") for requirement in project["dependencies"]]
    markers = [requirement.partition(";")[2] for requirement in project["dependencies"]]
    return [f"{name.split(';')[0]};{marker}" if marker else name for name, marker in zip(oldest, markers, strict=True)]


@pytest.fixture(scope="module")
def oldest(uv: Uv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in an environment with the oldest of everything, and without torch."""
    if sys.version_info >= (3, 12):
        pytest.skip("the oldest versions have wheels up to Python 3.11")
    folder = tmp_path_factory.mktemp("oldest")
    uv("venv", "--quiet", "--python", sys.executable, folder / "venv")
    pins = folder / "pins.txt"
    pins.write_text("\n".join([*lowest(), "click<8.2"]))  # typer 0.12 works with no later one, as command_line.py says
    uv("pip", "install", "--quiet", "--python", folder / "venv", "--only-binary", ":all:",
       "--requirement", pins, build_wheel(folder))  # fmt: skip
    return folder / "venv" / "bin" / "ddpdoctor"


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["--help"], 0, "Name the rank, the line"),
        (["watch", "--help"], 0, "--kill-on-hang"),
        (["checks"], 0, "DDP305"),
        (["explain", "DDP305"], 0, "collective-called-by-some"),
        (["explain", "hangs", "in", "the", "first", "step"], 0, "DDP"),
        (["env", "--ignore", "DDP103"], 0, "no NVIDIA GPU"),
        (["port"], 0, "no findings"),
        (["config", "watch"], 0, "--stall-after"),
        (["init", "torchrun"], 0, "torchrun"),
        (["lint", "bad.sh"], 1, "DDP"),
        (["lint", "bad.sh", "--format", "sarif"], 1, '"version": "2.1.0"'),
        (["lint", "bad.sh", "--format", "html"], 1, "<!doctype html>"),
        (["diagnose", "job.log"], 1, "DDP"),
        (["diagnose", "job.log", "--format", "junit"], 1, "<testsuite "),
        (["train"], 2, "needs PyTorch"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, list) else "",
)
def test_the_oldest_of_everything_works(
    oldest: Path, arguments: list[str], code: int, printed: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.sh").write_text("#!/bin/bash\n#SBATCH --nodes 2\nsrun torchrun --standalone train.py\n")
    (tmp_path / "job.log").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/job/train.py", line 3, in <module>\n'
        "[rank0]:     main()\n"
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"
    )
    ended = subprocess.run(
        [oldest, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert printed.lower() in (ended.stdout + ended.stderr).lower()


def test_the_oldest_of_everything_watches_a_job_of_another_environment(oldest: Path, tmp_path: Path) -> None:
    """The job has torch, ddpdoctor has none."""
    (tmp_path / "train.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(1))\n"
        "if dist.get_rank() == 1:\n"
        "    raise ValueError('no such class: 7')\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    ended = subprocess.run(
        [oldest, "watch", "--", *job],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    verdict = ended.stderr[ended.stderr.rindex("━━ ddpdoctor watch") :]
    assert "rank 1" in verdict
    assert "ValueError: no such class: 7" in verdict


def test_typer_and_click_that_do_not_fit_are_named(oldest: Path, uv: Uv, tmp_path: Path) -> None:
    """Both satisfy what their packages declare, and no program that uses typer can show its help with them."""
    uv("pip", "install", "--quiet", "--python", oldest.parents[1], "--target", tmp_path, "--no-deps", "click==8.2.1")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [oldest, "--help"], env=environment, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "typer 0.12.0 does not work with click 8.2.1" in ended.stderr


def test_what_comes_with_it_is_small(uv: Uv, tmp_path: Path) -> None:
    uv("pip", "install", "--quiet", "--target", tmp_path / "site", build_wheel(tmp_path))
    installed = sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert installed / 2**20 < MEGABYTES_INSTALLED
    assert not (tmp_path / "site" / "torch").exists()
