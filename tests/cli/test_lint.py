"""`ddpdoctor lint` names the line, is silent on what `init` writes, and refuses what is no script."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.cli.report_output import NOT_SELECTED, with_reason
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Ran
from ddpdoctor.source.launch_scripts import shell_syntax
from ddpdoctor.workflows.lint import joined
from tests.training_programs import GOOD

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


def test_a_file_of_several_names_is_reported_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "job.sbatch").write_text(SICK)
    (real / "train.py").write_text(GOOD.replace("set_device(local_rank)", "set_device(rank)"))
    (tmp_path / "linked").symlink_to(real)
    assert cli.run(["lint", str(real), "--format", "json"]) == 1
    once = json.loads(capfd.readouterr().out)["findings"]
    assert cli.run(["lint", str(real), str(tmp_path / "linked"), str(real / "train.py"), "--format", "json"]) == 1
    assert json.loads(capfd.readouterr().out)["findings"] == once


@pytest.mark.parametrize("launcher", ["slurm", "torchrun"])
def test_what_init_writes_is_left_alone(launcher: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", launcher, "--output", str(tmp_path / "launch.sh")]) == 0
    assert cli.run(["lint", str(tmp_path), "--fail-on", "warn"]) == 0
    assert "no findings" in capfd.readouterr().out


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lint", str(tmp_path / "job.sh")]) == 2
    assert "does not exist" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("job.sh", b"\xff\xfe\x00", "it is not a text file"),
        ("job.sh", b"#" * (2 << 20), "it is larger than any launch script"),
        ("job.yaml", b"kind: Job: Job\n", "it is no YAML at line 1"),
    ],
)
def test_a_file_that_is_no_script_is_passed_over_with_the_reason(
    name: str, content: bytes, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    assert cli.run(["lint", str(file)]) == 3
    assert f"{file} was passed over: {says}" in capfd.readouterr().out


def test_without_the_parser_a_script_is_passed_over_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.sh").write_text(SICK)
    shell_syntax._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    assert cli.run(["lint", str(tmp_path)]) == 3
    shell_syntax._parser.cache_clear()
    assert "reading shell needs tree-sitter: `pip install tree-sitter tree-sitter-bash`" in capfd.readouterr().out


def test_a_directory_without_anything_to_read_is_undecided(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lint", str(tmp_path)]) == 3
    assert f"{tmp_path}: no launch script and no Python that could be read" in capfd.readouterr().out


def test_a_file_that_is_no_text_is_undecided_with_what_to_give_instead(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "best.pt").write_bytes(b"PK\x03\x04\x00\xff")
    assert cli.run(["lint", str(tmp_path / "best.pt")]) == 3
    said = capfd.readouterr().out
    assert "best.pt was passed over: it is not a text file" in said
    assert "give `ddpdoctor lint` a Python 3 program, a launch script, or a folder that holds some" in said


def test_beside_a_program_a_file_that_is_no_text_is_only_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "best.pt").write_bytes(b"PK\x03\x04\x00\xff")
    (tmp_path / "train.py").write_text("import torch\n")
    assert cli.run(["lint", str(tmp_path / "train.py"), str(tmp_path / "best.pt")]) == 0
    assert "give `ddpdoctor lint`" not in capfd.readouterr().out


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


def test_annotations_reach_github_as_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(SICK.replace("train.py", "train.py\n::add-mask::x"))
    assert cli.run(["lint", str(file), "--format", "github"]) == 1
    *annotations, summary = capfd.readouterr().out.splitlines()
    assert summary.startswith("ddpdoctor: ")
    assert len(annotations) == 5
    assert all(line.startswith(("::error file=", "::warning file=")) for line in annotations)


def test_standard_input_is_refused_with_what_to_type_instead(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lint", "-"]) == 2
    assert "reads files, not standard input" in capfd.readouterr().err


def test_a_file_named_by_a_dash_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody means standard input by `./-` where such a file exists."""
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("import torch\n")

    assert cli.run(["lint", "./-"]) != 2


def test_the_summary_of_a_github_job_has_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, summary = tmp_path / "job.sh", tmp_path / "summary.md"
    script.write_text("#!/bin/bash\n#SBATCH --nodes 2\nsrun torchrun --standalone train.py\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert cli.run(["lint", str(script)]) == 1
    assert summary.read_text().startswith("### ddpdoctor lint")
    assert "DDP7" in summary.read_text()


def test_a_selection_without_a_check_of_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    assert cli.run(["lint", "--select", "DDP305", str(tmp_path / "train.py")]) == 3
    assert "undecided: no selected check looks at what was read" in capsys.readouterr().out


def test_a_baseline_is_not_written_to_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    assert cli.run(["lint", "--write-baseline", str(tmp_path), str(tmp_path / "train.py")]) == 2
    assert f"--write-baseline {tmp_path} is a directory" in capsys.readouterr().err


def test_a_selection_is_not_said_to_be_empty_where_another_part_of_smoke_looks() -> None:
    """`smoke --path SRC --select DDP711`: its own stages have nothing to look at, and `lint` has."""
    stages = diagnose(Evidence(), select=["DDP711"])
    linted = replace(stages, outcomes=tuple(Ran(outcome.rule, ()) for outcome in stages.outcomes))
    assert with_reason(stages).undecided == (NOT_SELECTED,)
    assert not with_reason(joined(stages, linted)).undecided
    assert not with_reason(diagnose(Evidence())).undecided


def test_a_log_is_no_script_without_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slurm-42.out").write_text("[rank1]: ValueError: bad batch\n")
    assert cli.run(["lint", str(tmp_path / "slurm-42.out")]) == 3
    assert "it is no launch script by its name; `ddpdoctor diagnose` reads logs and cases" in capsys.readouterr().out
    (tmp_path / "launch").write_text("torchrun --nproc-per-node 2 train.py\n")
    assert cli.run(["lint", str(tmp_path / "launch")]) == 0
