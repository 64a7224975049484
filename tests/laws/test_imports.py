"""Who may import whom, and what the front door may cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAZY = ("torch", "numpy", "pynvml")


def test_import_contracts_hold() -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("module", ["ddpdoctor", "ddpdoctor.cli", "ddpdoctor.engine", "ddpdoctor.case"])
def test_import_does_not_pay_for_torch(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {LAZY!r} if name in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_checks_never_import_each_other() -> None:
    files = [*(ROOT / "ddpdoctor" / "checks").glob("ddp*.py")]
    offenders = [path.name for path in files if "from ddpdoctor.checks.ddp" in path.read_text()]
    assert not offenders
