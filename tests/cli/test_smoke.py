"""`ddpdoctor smoke`: four stages, one report, in every form that CI reads."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from ddpdoctor.case import load
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.evidence.host import Host
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.evidence.training import TrainingRun
from tests.waiting import PROGRAM_SECONDS


def test_one_report_out_of_all_stages(tmp_path: Path) -> None:
    summary, junit, saved = tmp_path / "summary.md", tmp_path / "smoke.xml", tmp_path / "case.json"
    summary.write_text("what was there before\n")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "ddpdoctor", "smoke", "--nproc", "2"),
            *("--format", "junit", "--output", str(junit), "--case", str(saved)),
        ],
        env={**os.environ, "GITHUB_STEP_SUMMARY": str(summary)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    suite = ET.parse(junit).getroot()
    assert suite.find(".//testcase[@name='reference-accuracy-below-band']") is not None or "DDP522" in junit.read_text()
    assert summary.read_text().startswith("what was there before\n### ddpdoctor smoke: ")
    for stage in ("env", "bench", "verify-sync", "train"):
        assert f"| {stage} |" in summary.read_text()
    evidence = load(saved)
    assert all(evidence.one(kind) is not None for kind in (CollectiveBench, Replicas))
    trained = evidence.one(TrainingRun)
    assert trained is not None
    assert trained.accuracy >= 0.9617
    assert trained.samples_per_second > 0
    assert len(set(trained.weights)) == 1
    assert evidence.per_rank(Host) is not None


def test_under_a_launcher_it_says_what_to_run_instead() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "smoke"],
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 2
    assert "smoke starts its own ranks, but torch already started this as rank 0" in ended.stderr
