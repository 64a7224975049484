"""The time and memory that rank 0's node needs to judge a hang over many nodes: it reads the cases of all other nodes.

    python -m tests.bench nodes           # 64 and 512 nodes of 8 ranks; NODES="128" for others

All nodes share one case directory. Each rank has a flight recorder of 501 calls, and one rank in the middle leaves out its last
call. The first look reads every case. Before the second look a few nodes have written theirs again.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ddpdoctor import case
from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.workflows.watch.multi_node import OtherNodes
from tests.bench.large_case import PER_HOST, job

VERDICT_SECONDS, LOOK_SECONDS = 5.0, 2.0
WRITTEN_AGAIN = 4  # nodes, between two looks
QUIET_SECONDS = 3600.0  # so that the cases which the bench wrote count, however long it took


def main() -> int:
    """Measure and print; 1 where a number of nodes is over a limit."""
    if nodes := os.environ.get("BENCH_CASES"):
        return _rank_0(Path(nodes))
    return max([measured(int(nodes)) for nodes in os.environ.get("NODES", "64 512").split()])


def measured(nodes: int) -> int:
    """Print a line for a job of `nodes` nodes; 1 where it is over a limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        evidence = job(nodes * PER_HOST)
        for node in range(nodes):
            lowest = node * PER_HOST
            case.save(_of_node(evidence, lowest), folder / case.CASES_OF_NODES.replace("*", str(lowest)))
            (folder / f".node-with-rank-{lowest}.runs").touch()
        launched = {"RANK": 0, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": PER_HOST, "WORLD_SIZE": nodes * PER_HOST}
        environ = {**os.environ, "BENCH_CASES": name, **{key: str(value) for key, value in launched.items()}}
        return subprocess.run([sys.executable, "-m", "tests.bench", "nodes"], env=environ, check=False).returncode


def _rank_0(folder: Path) -> int:
    """The part of the node of rank 0, in a process of its own, as its peak of memory is asked for."""
    ranks = int(os.environ["WORLD_SIZE"])
    evidence = case.load(folder / case.CASES_OF_NODES.replace("*", "0"))
    nodes = OtherNodes(folder)
    nodes.beat(
        [
            RankProcess(directory=folder, pid=os.getpid(), header=Header(rank=rank, world_size=ranks))
            for rank in range(PER_HOST)
        ]
    )
    began = time.perf_counter()
    together = nodes.on_stall(evidence, QUIET_SECONDS)
    read = time.perf_counter() - began
    found = diagnose(together)
    verdict = time.perf_counter() - began
    for file in sorted(folder.glob(case.CASES_OF_NODES))[-WRITTEN_AGAIN:]:
        case.save(case.load(file), file)
    began = time.perf_counter()
    nodes.on_stall(evidence, QUIET_SECONDS)
    again = time.perf_counter() - began
    named = any(finding.code == "DDP307" and ranks // 2 in finding.ranks for finding in found.findings)
    complete = len(together.ranks) == ranks
    over = not (named and complete) or verdict > VERDICT_SECONDS or again > LOOK_SECONDS
    print(
        f"nodes: {ranks // PER_HOST:5} of {PER_HOST} ranks: verdict after {verdict:.1f} s (limit {VERDICT_SECONDS:g}), of which "
        f"{read:.1f} s to read; a look at {WRITTEN_AGAIN} changed cases {again:.1f} s (limit {LOOK_SECONDS:g}); memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB; the rank is {'named' if named else 'NOT named'}; "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    return int(over)


def _of_node(evidence: Evidence, lowest: int) -> Evidence:
    return replace(evidence, ranks=evidence.ranks[lowest : lowest + PER_HOST])


if __name__ == "__main__":
    sys.exit(main())
