"""N ranks compute what one process computes, and every known mistake fails a gate under its own name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recipe_options import MISTAKES

AN_EPOCH = "26"  # the last step of the first epoch is the uneven one


def parity(ranks: int, tmp_path: Path, *arguments: str, steps: str = AN_EPOCH) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of `ddpdoctor train --parity`."""
    report = tmp_path / "report.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "ddpdoctor", "train", "--parity", "--nproc", str(ranks), "--steps", steps),
            *("--format", "json", "--output", str(report), *arguments),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert report.exists(), ended.stdout + ended.stderr
    return ended.returncode, json.loads(report.read_text())


def test_two_ranks_compute_what_one_process_computes(tmp_path: Path) -> None:
    code, report = parity(2, tmp_path)

    assert code == 0, report["findings"]
    gates = {gate["name"]: gate["measured"] for gate in report["measured"]["parity"]["gates"]}
    assert len(gates) == 14
    assert gates["accumulated and clipped: gradient of the uneven step"] < 1e-14
    assert gates["resumed, same bits"] == 0
    assert report["measured"]["parity"]["signature"] is None


def test_the_smallest_mistake_fails_and_is_named(tmp_path: Path) -> None:
    code, report = parity(2, tmp_path, "--mistake", "uneven-batches")

    assert code == 1
    (finding,) = report["findings"]
    assert finding["code"] == "DDP523"
    assert finding["message"].startswith(
        "2 ranks over gloo part from one process: plain: gradient of the uneven step: "
    )
    assert finding["details"][0].startswith("it looks like uneven-batches: each rank averages over its own batch")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_three_hundred_steps_stay_with_one_process(tmp_path: Path, ranks: int) -> None:
    code, report = parity(ranks, tmp_path, steps="300")

    assert code == 0, report["findings"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_named(tmp_path: Path, mistake: str, ranks: int) -> None:
    code, report = parity(ranks, tmp_path, "--mistake", mistake)

    assert code == 1
    assert report["findings"][0]["details"][0].startswith(f"it looks like {mistake}: {MISTAKES[mistake]}")
