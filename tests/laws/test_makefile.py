"""The two commands that hold anywhere install what they need and no more, and CI installs what tests would skip without."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clusters.conftest import PROGRAMS
from tests.net.namespaces import TOOLS
from tests.waiting import PROGRAM_SECONDS

ROOT = Path(__file__).parents[2]
CI = ROOT / ".ci" / "run"


def commands(target: str, folder: Path, *fresh: str) -> list[str]:
    """What `make TARGET` would run where there is no virtual environment but the stamps `fresh`."""
    for stamp in fresh:
        (folder / stamp).touch()
    command = ["make", "--no-print-directory", "--dry-run", target, f"VENV={folder}"]
    plain = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    made = subprocess.run(
        command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=True
    )
    return made.stdout.splitlines()


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def test_smoke_installs_what_ddpdoctor_needs_and_no_development_tools(tmp_path: Path) -> None:
    (installs,) = (line for line in commands("smoke", tmp_path) if " pip install " in line)
    assert installs.endswith("--constraint constraints.txt --editable '.[torch]'")


def test_the_suite_adds_the_development_tools_once(tmp_path: Path) -> None:
    *_, adds, stamps, tests = commands("test", tmp_path, "installed")
    assert adds.endswith("--editable '.[dev]'"), adds
    assert stamps == f"touch {tmp_path}/development"
    assert "-m pytest" in tests
    assert commands("test", tmp_path, "installed", "development") == [tests]


def test_ci_runs_the_suite_before_what_takes_longer() -> None:
    made = [line.split()[1] for line in CI.read_text().splitlines() if line.startswith("make ")]
    assert made == [".venv/development", "test", "slow"]


def test_ci_knows_the_package_of_every_program_that_tests_ask_for() -> None:
    table = CI.read_text().split("needed='")[1].split("'")[0]
    packages = dict(line.split() for line in table.strip().splitlines())
    assert {*TOOLS, *PROGRAMS, "shellcheck", "mpirun", "chromium"} == set(packages)


@pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="shellcheck is not installed: apt-get install shellcheck"
)
def test_shellcheck_has_nothing_to_say_about_ci() -> None:
    said = subprocess.run(["shellcheck", CI], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    assert not said.stdout
