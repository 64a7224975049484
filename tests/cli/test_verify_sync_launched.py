"""`torchrun ... -m ddpdoctor verify-sync SCRIPT` on two nodes that share no files: rank 0 reports about all ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from ddpdoctor.launch.faults import find_fault

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def two_nodes(folder: Path, *arguments: str) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of the two agents of a torchrun of 2 x 2 ranks, each with temporary files of its own."""
    port = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False).port
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "two", "--local-addr", "127.0.0.1",
        "-m", "ddpdoctor", "verify-sync", *arguments,
    ]  # fmt: skip
    agents = []
    for node in ("a", "b"):
        own = folder / node
        own.mkdir()
        environ = {**os.environ, "TMPDIR": str(own), "OMP_NUM_THREADS": "1"}
        environ.pop("XDG_RUNTIME_DIR", None)
        agents.append(
            subprocess.Popen(torchrun, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    said = [agent.communicate(timeout=300) for agent in agents]
    return [(agent.returncode, out, err) for agent, (out, err) in zip(agents, said, strict=True)]


def test_rank_0_names_the_sick_rank_of_the_other_node(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ended = two_nodes(
        tmp_path, "--every", "1", "--format", "json", "--output", str(report), str(find_fault("DDP517")),
        "--steps", "8", "--at-step", "3", "--culprit", "3",
    )  # fmt: skip
    finding = json.loads(report.read_text())["findings"][0]
    assert (finding["code"], finding["ranks"], finding["measured"]["step"]) == ("DDP517", [3], 3)
    assert sum(out.count("DDP517 non-finite-on-some-ranks") for _, out, _ in ended) == 1
    assert [code for code, _, _ in ended] == [1, 1]  # a torchrun on which no rank failed would wait for minutes
    assert not [path for node in "ab" for path in (tmp_path / node).glob("ddpdoctor-*")]


def test_a_healthy_job_over_two_nodes_gets_silence(tmp_path: Path) -> None:
    healthy = Path(__file__).parents[1] / "ward" / "healthy" / "accumulates_with_no_sync.py"
    ended = two_nodes(tmp_path, "--every", "1", str(healthy))
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert sum(out.count("no findings") for _, out, _ in ended) == 1
