"""`ddpdoctor lint` names the line, is silent on what `init` writes, and refuses what is no script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor import cli

SICK = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
# MASTER_PORT=1234 in a comment is none
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
export RANK=$SLURM_PROCID
srun python -m torch.distributed.launch \\
    --nproc_per_node=8 train.py
"""


def test_every_mistake_of_one_script_is_named_with_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(SICK)
    assert cli.run(["lint", str(tmp_path), "--format", "json"]) == 1
    findings = json.loads(capfd.readouterr().out)["findings"]
    assert {finding["code"]: finding["where"][0]["line"] for finding in findings} == {
        "DDP701": 5, "DDP702": 5, "DDP703": 7, "DDP704": 6, "DDP705": 7,
    }  # fmt: skip
    assert {finding["where"][0]["file"] for finding in findings} == {str(file)}


@pytest.mark.parametrize("launcher", ["slurm", "torchrun"])
def test_what_init_writes_is_left_alone(launcher: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", launcher, "--output", str(tmp_path / "launch.sh")]) == 0
    assert cli.run(["lint", str(tmp_path), "--fail-on", "warn"]) == 0
    assert "no findings" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe\x00", "is not a text file"),
        (b"#" * (2 << 20), "larger than"),
    ],
)
def test_what_is_no_script_is_refused(
    content: bytes | None, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.sh"
    if content is not None:
        file.write_bytes(content)
    assert cli.run(["lint", str(file)]) == 2
    assert says in capfd.readouterr().err


def test_a_directory_without_anything_to_read_is_undecided(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lint", str(tmp_path)]) == 3
    assert f"{tmp_path}: no launch script and no Python that could be read" in capfd.readouterr().out


def test_the_program_that_a_script_starts_is_judged_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    program = tmp_path / "src" / "train.py"
    program.write_text(
        'import os\n\nos.environ["MASTER_ADDR"] = "127.0.0.1"\nos.environ.setdefault("MASTER_PORT", "29500")\n'
    )
    script = tmp_path / "job.sh"
    script.write_text("torchrun --nnodes 2 --nproc-per-node 8 --master-addr node0 src/train.py\n")
    assert cli.run(["lint", str(script), "--format", "json", "--fail-on", "warn"]) == 1
    (finding,) = json.loads(capfd.readouterr().out)["findings"]
    assert (finding["code"], finding["where"][0]["file"], finding["where"][0]["line"]) == ("DDP702", str(program), 3)
