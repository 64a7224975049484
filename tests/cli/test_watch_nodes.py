"""Two `ddpdoctor watch` that share a case directory, as on two nodes: who speaks, and that all of it ends.

The ranks are small programs that write the agent's log themselves: rank 0 is in a collective, as far as a stack tells, rank 1
sleeps or fails. tests/cli/test_watch_launchers.py does the same with real ranks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

WATCH = (sys.executable, "-m", "ddpdoctor", "watch", "--stall-after", "2")
RANK = """
import os, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "torch", "distributed"))
from distributed_c10d import all_reduce
from _ddpdoctor_inside.calls.call_ring import CallRing
rank, path = int(os.environ["RANK"]), f"{os.environ['DDPDOCTOR_AGENT_DIR']}/{os.getpid()}.ring"
ring = CallRing(path, rank=rank, world_size=2, restart=0)
ring.count_step()

def fetch():
    time.sleep(float(sys.argv[1]))  # line 11

fetch() if rank == 1 else all_reduce(float(sys.argv[1]))
ring.count_step()
time.sleep(2)  # the job goes on
"""
COLLECTIVE = "import time\ndef all_reduce(seconds):\n    time.sleep(seconds)\n"
SAYS = "DDP307 rank-stuck-outside-collective: rank 1 in fetch (train.py:11) sleeps; rank 0 waits for it in all_reduce"


def two_nodes(folder: Path, seconds: float, *options: str) -> list[subprocess.CompletedProcess[str]]:
    """What `watch` said on each of two nodes with one rank each, of which rank 1 sleeps for `seconds`."""
    script = folder / "train.py"
    script.write_text(RANK)
    (folder / "torch" / "distributed").mkdir(parents=True)
    (folder / "torch" / "distributed" / "distributed_c10d.py").write_text(COLLECTIVE)

    def node(number: int) -> subprocess.CompletedProcess[str]:
        place = {"RANK": str(number), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        report = ("--format", "json", "-o", str(folder / f"report-{number}.json"))
        job = (sys.executable, str(script), str(seconds))
        return subprocess.run(
            [*WATCH, *options, *report, "--case", str(folder / "case"), "--", *job],
            env={**os.environ, **place}, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        return [*pool.map(node, (0, 1))]


def test_the_node_of_rank_0_speaks_for_both_and_both_end_as_asked(tmp_path: Path) -> None:
    first, second = two_nodes(tmp_path, 600, "--kill-on-hang")
    assert SAYS in first.stderr
    assert "DDP" not in second.stderr
    assert (first.returncode, second.returncode) == (1, 128 + signal.SIGTERM)
    (finding,) = json.loads((tmp_path / "report-0.json").read_text())["findings"]
    assert (finding["code"], finding["ranks"]) == ("DDP307", [1])
    assert not (tmp_path / "report-1.json").exists()
    assert sorted(file.name for file in (tmp_path / "case").iterdir()) == [
        "node-with-rank-0.json",
        "node-with-rank-1.json",
    ]


@pytest.mark.slow
def test_two_nodes_that_recover_say_so_once_and_leave_their_cases(tmp_path: Path) -> None:
    first, second = two_nodes(tmp_path, 12)
    assert SAYS in first.stderr
    assert "DDP" not in second.stderr
    assert "no progress for" in first.stderr
    assert (first.returncode, second.returncode) == (0, 0)
