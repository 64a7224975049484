"""N ranks compute what one process computes, and every known mistake fails a gate under its own name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from recipe_options import MISTAKES

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import Gate, ParityRun
from ddpdoctor.model import Severity
from tests.reference_train.forked import exit_code, fork_ranks, kill
from tests.sampled import sampled

SMALLEST = "uneven-batches"  # of the mistakes; it is tried in every run of the tests
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


def proof(ranks: int, tmp_path: Path, *arguments: str) -> ParityRun:
    """What ranks of parity.py find."""
    log = tmp_path / "log.jsonl"
    started = fork_ranks("parity", "--json-lines", str(log), *arguments, ranks=ranks)
    try:
        assert [exit_code(rank, seconds=300) for rank in started] == [0] * ranks
    finally:
        kill(started)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    gates = [Gate(**fields(event)) for event in events if event["event"] == "gate"]
    return ParityRun(**fields(events[-1]), gates=tuple(gates))


def fields(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "event"}


def test_the_smallest_mistake_fails_and_is_named(tmp_path: Path) -> None:
    found = proof(2, tmp_path, "--steps", AN_EPOCH, "--mistake", SMALLEST)

    report = diagnose(Evidence(job=(found,)))
    assert report.exit_code(Severity.FAIL) == 1
    (finding,) = report.findings
    assert finding.code == "DDP523"
    assert finding.message.startswith(
        "2 gloo ranks diverge from the single-process run: plain: gradient of the uneven step: "
    )
    assert finding.details[0].startswith("it looks like uneven-batches: each rank averages over its own batch")


@pytest.mark.matrix
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_three_hundred_steps_stay_with_one_process(tmp_path: Path, ranks: int) -> None:
    found = proof(ranks, tmp_path)

    assert found.steps == 300
    assert not diagnose(Evidence(job=(found,))).findings


@pytest.mark.parametrize(
    ("mistake", "ranks"),
    sampled(
        product(MISTAKES, [2, 3, 4]),
        lambda mistake, ranks: mistake != SMALLEST and ranks == 2 + list(MISTAKES).index(mistake) % 3,
    ),
)
def test_every_mistake_is_named(tmp_path: Path, mistake: str, ranks: int) -> None:
    found = proof(ranks, tmp_path, "--steps", AN_EPOCH, "--mistake", mistake)

    (finding,) = diagnose(Evidence(job=(found,))).findings
    assert finding.code == "DDP523"
    assert finding.details[0].startswith(f"it looks like {mistake}: {MISTAKES[mistake]} (a gradient of ")
