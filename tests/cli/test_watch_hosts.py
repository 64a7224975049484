"""One job over two hosts made of network namespaces, each under its own `ddpdoctor watch`, that share a case directory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import faulty_job
from tests.net.namespaces import PORT, Hosts, Said, said_by, why_not

pytestmark = [
    pytest.mark.root,
    pytest.mark.matrix,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can"),
    pytest.mark.timeout(400),
]
RANKS = 4
SECONDS = 300


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts(2) as made:
        yield made


@dataclass(frozen=True)
class Job:
    """What became of a job on two hosts of two ranks each."""

    folder: Path
    said: dict[int, Said]

    def findings(self) -> list[dict[str, Any]]:
        """The headlines that node 0 reported; node 1 must have left that to it."""
        assert "DDP" not in self.said[1].stderr, self.said[1].stderr
        assert not (self.folder / "report-1.json").exists()
        return headlines(self.report(0))

    def report(self, node: int) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / f"report-{node}.json").read_text())
        return report

    def diagnosed(self) -> list[dict[str, Any]]:
        """The headlines of `ddpdoctor diagnose` on the cases that the nodes left."""
        command = [sys.executable, "-m", "ddpdoctor", "diagnose", str(self.folder / "case"), "--format", "json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return headlines(json.loads(ended.stdout))


def headlines(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for found in report["findings"] if found["explained_by"] is None]


def run(hosts: Hosts, folder: Path, fault: str, culprit: int) -> Job:
    def start(number: int) -> subprocess.Popen:
        watch = [
            sys.executable, "-m", "ddpdoctor", "watch", "--stall-after", "4", "--kill-on-hang", "--format", "json",
            "-o", str(folder / f"report-{number}.json"), "--case", str(folder / "case"), "--",
        ]  # fmt: skip
        torchrun = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(number),
            "--master-addr", "node0", "--master-port", str(PORT), str(faulty_job.__file__), fault, str(culprit),
        ]  # fmt: skip
        return hosts.start(number, *watch, *torchrun, env={"OMP_NUM_THREADS": "1"})

    started = {number: start(number) for number in (0, 1)}
    return Job(folder, {number: said_by(process, SECONDS) for number, process in started.items()})


@pytest.mark.parametrize(
    ("fault", "culprit", "code"),
    [
        ("calls-alone", 3, "DDP305"),
        ("calls-alone", 0, "DDP305"),
        ("sleeps", 2, "DDP307"),
        ("raises", 1, "DDP401"),
        ("is-killed", 3, "DDP403"),
        ("stops", 0, "DDP310"),
    ],
)
def test_the_node_of_rank_0_names_the_culprit_on_whichever_node_it_is(
    hosts: Hosts, tmp_path: Path, fault: str, culprit: int, code: str
) -> None:
    job = run(hosts, tmp_path, fault, culprit)
    for found in (job.findings(), job.diagnosed()):
        assert [(each["code"], each["ranks"]) for each in found] == [(code, [culprit])], job.said[0].stderr
        lines = {(place["rank"], place["line"]) for place in found[0]["where"]}
        assert fault == "is-killed" or (culprit, faulty_job.line_of(fault)) in lines
    assert job.said[0].code == 1


@pytest.mark.parametrize("culprit", [0, 2], ids=["of rank 0", "of the others"])
def test_a_host_that_goes_down_is_said_to_be_missing_by_the_one_that_is_left(
    hosts: Hosts, tmp_path: Path, culprit: int
) -> None:
    job = run(hosts, tmp_path, "takes-its-node-along", culprit)
    left, gone = (1, "ranks 0-1") if culprit == 0 else (0, "ranks 2-3")
    said = job.report(left)["undecided"][-1]  # after the standstill, where it lasted for long enough to be one
    assert f"lost a peer, and there is no evidence of {gone} of 4" in said, job.said[left].stderr
    assert job.report(left)["findings"] == []


def test_a_healthy_job_gets_one_line_on_one_host(hosts: Hosts, tmp_path: Path) -> None:
    job = run(hosts, tmp_path, "nothing", 0)
    for said in job.said.values():
        assert said.code == 0, said.stderr
    lines = [line for said in job.said.values() for line in said.stderr.splitlines() if "ddpdoctor" in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("ddpdoctor: nothing found: ")
    assert (job.findings(), job.diagnosed()) == ([], [])
