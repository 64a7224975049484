"""Every usual way of training on replicas: both commands are silent about healthy jobs and name what is sick in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli.test_verify_sync import verify

WAYS = Path(__file__).with_name("sync_ways") / "ways.py"
AVERAGES = "averages its weights itself"

pytestmark = pytest.mark.timeout(600)
Command = Literal["verify-sync", "watch"]


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """Jobs of one process start, one after the other."""

    ways: tuple[str, ...]
    nproc: int = 2
    averages: bool = False
    needs: str = ""


HEALTHY = (
    Healthy(ways=("accumulates", "scales", "compiles", "checkpoints", "shards_state", "compresses", "factorizes")),
    Healthy(ways=("averages_late",), averages=True),
    Healthy(ways=("averages_by_hand",), averages=True),
    Healthy(ways=("averages_a_part",), averages=True),
    Healthy(ways=("averages_in_levels",), nproc=4, averages=True),
    Healthy(ways=("local_sgd",), averages=True, needs="accelerate"),
    Healthy(ways=("shards",)),
    Healthy(ways=("shards_and_replicates",), nproc=4),
    Healthy(ways=("trains_stages",), nproc=4),
)
OFTEN = {"accumulates", "averages_late", "trains_stages"}  # the others when somebody asks for the matrix


def rows() -> list[Any]:
    return [
        pytest.param(row, id=row.ways[0], marks=pytest.mark.slow if row.ways[0] in OFTEN else pytest.mark.matrix)
        for row in HEALTHY
    ]


@pytest.mark.parametrize("row", rows())
def test_a_healthy_job_gets_silence(row: Healthy) -> None:
    if row.needs:
        pytest.importorskip(row.needs)
    exit_code, report, stderr = verify("--nproc", str(row.nproc), "--every", "1", str(WAYS), *row.ways)
    assert [finding["message"] for finding in report["findings"] if finding["severity"] != "info"] == []
    assert (exit_code, report["undecided"]) == (0, []), stderr
    assert any(AVERAGES in note for note in report["notes"]) == row.averages


@dataclass(frozen=True, kw_only=True)
class Sick:
    """`fault` on rank 0 in one way of training; `ranks` are those that must be named."""

    way: str
    fault: str
    code: str
    ranks: tuple[int, ...]
    step: int
    nproc: int = 2
    needs: str = ""


SICK = (
    Sick(way="accumulates", fault="gradients", code="DDP505", ranks=(0,), step=2),
    Sick(way="scales", fault="gradients", code="DDP505", ranks=(0,), step=8),
    Sick(way="compiles", fault="weights", code="DDP509", ranks=(0,), step=8),
    Sick(way="checkpoints", fault="weights", code="DDP509", ranks=(0,), step=8),
    Sick(way="shards_state", fault="gradients", code="DDP505", ranks=(0,), step=8),
    Sick(way="compresses", fault="weights", code="DDP509", ranks=(0,), step=8),
    Sick(way="factorizes", fault="weights", code="DDP509", ranks=(0,), step=8),
    Sick(way="averages_late", fault="rate", code="DDP506", ranks=(0, 1), step=8),
    Sick(way="averages_by_hand", fault="after", code="DDP503", ranks=(0, 1), step=9),
    Sick(way="averages_a_part", fault="part", code="DDP503", ranks=(0, 1), step=1),
    Sick(way="averages_in_levels", fault="rate", code="DDP506", ranks=(0,), step=9, nproc=4),
    Sick(way="local_sgd", fault="rate", code="DDP506", ranks=(0, 1), step=9, needs="accelerate"),
    Sick(way="shards", fault="rate", code="DDP506", ranks=(0, 1), step=8),
    Sick(way="shards", fault="bit", code="DDP525", ranks=(0,), step=8),
    Sick(way="shards_and_replicates", fault="weights", code="DDP509", ranks=(0,), step=8, nproc=4),
    Sick(way="shards_and_replicates", fault="bit", code="DDP525", ranks=(0,), step=8, nproc=4),
    Sick(way="trains_stages", fault="weights", code="DDP509", ranks=(0,), step=8, nproc=4),
    Sick(way="trains_stages", fault="gradients", code="DDP505", ranks=(0,), step=8, nproc=4),
)


@pytest.mark.matrix
@pytest.mark.parametrize("row", SICK, ids=lambda row: f"{row.way}-{row.fault}")
def test_what_is_made_sick_is_named(row: Sick) -> None:
    if row.needs:
        pytest.importorskip(row.needs)
    _, report, stderr = verify("--nproc", str(row.nproc), "--every", "1", str(WAYS), row.way, "--sick", row.fault)
    first, *others = report["findings"] or [{}]
    assert (first.get("code"), tuple(first.get("ranks", ()))) == (row.code, row.ranks), stderr
    assert first["measured"]["step"] == row.step
    assert [other["code"] for other in others if other["explained_by"] is None and other["severity"] != "info"] == []


BOTH: tuple[Command, ...] = ("verify-sync", "watch")
PLAIN = ("scales", "compiles", "checkpoints", "shards_state", "compresses")
ABORTS = "factorizes"  # at its end, with gloo, also without ddpdoctor: `watch` says so first (DDP403)
FRAMEWORKS = {"with_accelerate": "accelerate", "with_lightning": "lightning", "with_transformers": "transformers"}
FAULTS = {"weights": "DDP509", "rate": "DDP506", "buffer": "DDP508"}


def one_fault() -> list[Sick]:
    """One weight, learning rate or buffer that one rank has otherwise, in each way where it is comparable."""
    ways = [(way, 8) for way in (*PLAIN, ABORTS, "with_lightning", "with_transformers")] + [("with_accelerate", 4)]
    rows = [
        Sick(
            way=way, fault=fault, code=code, ranks=(0, 1) if fault == "rate" else (0,), step=step,
            needs=FRAMEWORKS.get(way, ""),
        )
        for way, step in ways
        for fault, code in FAULTS.items()
        if (way, fault) != ("compiles", "buffer")  # hooks are no part of a compiled forward
    ]  # fmt: skip
    return [
        *rows,
        Sick(way="accumulates", fault="weights", code="DDP509", ranks=(0,), step=2),
        Sick(way="accumulates", fault="rate", code="DDP506", ranks=(0, 1), step=2),
        Sick(way="accumulates", fault="buffer", code="DDP508", ranks=(0,), step=3),
        Sick(way="averages_late", fault="rate", code="DDP506", ranks=(0, 1), step=8),
        Sick(way="averages_late", fault="weights", code="DDP503", ranks=(0, 1), step=8),
        Sick(way="shards", fault="rate", code="DDP506", ranks=(0, 1), step=8),
        Sick(way="shards_and_replicates", fault="weights", code="DDP509", ranks=(0,), step=8, nproc=4),
        Sick(way="shards_and_replicates", fault="rate", code="DDP506", ranks=(0,), step=8, nproc=4),
        Sick(way="shards", fault="buffer", code="DDP508", ranks=(0,), step=8),
        Sick(way="shards_and_replicates", fault="buffer", code="DDP508", ranks=(0,), step=8, nproc=4),
        Sick(way="trains_stages", fault="weights", code="DDP509", ranks=(0,), step=8, nproc=4),
        Sick(way="trains_stages", fault="rate", code="DDP506", ranks=(0, 2), step=8, nproc=4),
        Sick(way="trains_stages", fault="buffer", code="DDP508", ranks=(0,), step=8, nproc=4),
    ]


@pytest.mark.matrix
@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize("row", one_fault(), ids=lambda row: f"{row.way}-{row.fault}")
def test_one_rank_with_another_weight_rate_or_buffer_is_found(row: Sick, command: Command, tmp_path: Path) -> None:
    if row.needs:
        pytest.importorskip(row.needs)
    if row.way == ABORTS and command == "watch":
        pytest.skip("the job itself aborts at its end")
    own = ("--own-buffers",) if row.fault == "buffer" else ()
    report = reported(command, row.nproc, tmp_path, row.way, "--sick", row.fault, *own)
    first, *others = report["findings"] or [{}]
    assert (first.get("code"), tuple(first.get("ranks", ()))) == (row.code, row.ranks)
    assert first["measured"]["step"] == row.step
    assert [other["code"] for other in others if other["explained_by"] is None and other["severity"] != "info"] == []


@pytest.mark.matrix
@pytest.mark.parametrize("command", BOTH)
@pytest.mark.parametrize("own", [(), ("--own-buffers",)], ids=["", "own buffers"])
@pytest.mark.parametrize(
    "ways",
    [
        ("accumulates", *PLAIN),
        ("averages_late",),
        ("shards",),
        ("shards_and_replicates",),
        ("trains_stages",),
        *((way,) for way in FRAMEWORKS),
    ],
    ids=lambda ways: ways[0],
)
def test_the_same_job_without_a_fault_gets_silence(
    ways: tuple[str, ...], own: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    if ways[0] in FRAMEWORKS:
        pytest.importorskip(FRAMEWORKS[ways[0]])
    report = reported(command, 4 if ways[0] in {"shards_and_replicates", "trains_stages"} else 2, tmp_path, *ways, *own)
    assert [finding["message"] for finding in report["findings"] if finding["severity"] != "info"] == []
    assert report["undecided"] == []


def reported(command: Command, nproc: int, folder: Path, *arguments: str) -> dict[str, Any]:
    """What one of the two commands says of `ways.py` with these arguments, when every step is audited."""
    if command == "verify-sync":
        return verify("--nproc", str(nproc), "--every", "1", str(WAYS), *arguments)[1]
    output = folder / "report.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "ddpdoctor", "watch", "--verify-sync=1", "--format", "json", "--output", str(output), "--"),
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(nproc)),
            *(str(WAYS), *arguments),
        ],
        capture_output=True, text=True, timeout=500, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert output.is_file(), ended.stderr
    report: dict[str, Any] = json.loads(output.read_text())
    return report
