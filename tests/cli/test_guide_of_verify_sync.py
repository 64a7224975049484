"""The programs in the guide of verify-sync run as they stand there, and show what the guide says of them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "verify-sync.md"


def program(name: str, folder: Path) -> Path:
    """The indented block of the guide that begins with `# name`, as a file in `folder`."""
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"    # {name}"))
    end = next(at for at in range(start, len(lines)) if lines[at] and not lines[at].startswith("    "))
    file = folder / name
    file.write_text(textwrap.dedent("\n".join(lines[start:end])), encoding="utf-8")
    return file


def torchrun(nproc: int, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc)]
    return subprocess.run(
        [*launcher, *command], cwd=cwd, capture_output=True, text=True, timeout=250, check=False
    )  # fmt: skip


def test_the_call_and_the_context(tmp_path: Path) -> None:
    ended = torchrun(3, program("in_your_code.py", tmp_path).name, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    cause, replicas = ended.stdout.splitlines()
    assert cause == "before step 3 of 5, rank 1 wrote 1 of 2 parameters (bias) outside the optimizer"
    assert replicas.startswith("bias[")
    assert " on ranks 0,2 and " in replicas


def test_the_fixtures_fail_the_sick_test_alone(tmp_path: Path) -> None:
    ended = torchrun(
        2, "-m", "pytest", "-p", "no:cacheprovider", program("test_in_sync.py", tmp_path).name, cwd=tmp_path
    )
    assert ended.returncode == 1
    assert ended.stdout.count("1 failed, 2 passed") == 2, ended.stdout
    assert "DDP506 optimizer-settings-differ" in ended.stdout
    assert "FAILED test_in_sync.py::test_a_rate_of_its_own_is_found" in ended.stdout
