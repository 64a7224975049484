"""`torchrun ... -m ddpdoctor verify-sync SCRIPT` on two nodes that share no files: rank 0 reports about all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor.launch.sick_jobs import find_fault
from tests.two_nodes import two_nodes


@pytest.mark.slow
def test_rank_0_names_the_sick_rank_of_the_other_node(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = two_nodes(
        tmp_path, "verify-sync", "--every", "1", "--format", "json", "--output", str(report), str(find_fault("DDP517")),
        "--steps", "8", "--at-step", "3", "--culprit", "3",
    )  # fmt: skip
    (finding,) = (one for one in json.loads(report.read_text())["findings"] if one["explained_by"] is None)
    assert (finding["code"], finding["ranks"], finding["measured"]["step"]) == ("DDP517", [3], 3)
    assert sum(out.count("DDP517 non-finite-on-some-ranks") for _, out, _ in ended) == 1
    assert [code for code, _, _ in ended] == [1, 1]  # a torchrun on which no rank failed would wait for minutes
    assert not [path for node in "ab" for path in (tmp_path / node).glob("ddpdoctor-*")]


@pytest.mark.matrix  # the sick job above has one headline and no other
def test_a_healthy_job_over_two_nodes_gets_silence(tmp_path: Path) -> None:
    healthy = Path(__file__).parents[1] / "ward" / "healthy" / "accumulates_with_no_sync.py"
    ended = two_nodes(tmp_path, "verify-sync", "--every", "1", str(healthy))
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert sum(out.count("no findings") for _, out, _ in ended) == 1
