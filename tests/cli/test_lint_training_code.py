"""`ddpdoctor lint train.py`: what people see, silence by comment, and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor import cli
from tests.training_programs import GOOD
from tests.waiting import PROGRAM_SECONDS

SICK = GOOD.replace("set_device(local_rank)", "set_device(rank)")


def lint(tmp_path: Path, text: str, *options: str) -> int:
    (tmp_path / "train.py").write_text(text)
    return cli.run(["lint", str(tmp_path / "train.py"), *options])


def test_each_finding_begins_with_file_line_and_column(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, SICK) == 1
    first, *rest = capfd.readouterr().out.splitlines()
    assert first.startswith(
        f"{tmp_path}/train.py:26:5: DDP720 device-from-global-rank: set_device gets the global rank"
    )
    assert f'  because rank = int(os.environ["RANK"]) ({tmp_path}/train.py:24)' in rest
    assert "  at run time: DDP415 or DDP401" in rest


def test_a_good_program_has_no_findings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, GOOD, "--fail-on", "warn") == 0
    assert capfd.readouterr().out.startswith("no findings")


@pytest.mark.parametrize("comment", ["  # ddpdoctor: ignore[DDP720] one node only", "  # ddpdoctor: ignore"])
def test_a_comment_silences_the_finding_of_its_line(
    comment: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert lint(tmp_path, SICK.replace("set_device(rank)", f"set_device(rank){comment}")) == 0
    assert capfd.readouterr().out.startswith("no findings")


def test_a_comment_alone_silences_the_line_below(tmp_path: Path) -> None:
    alone = SICK.replace("    torch.cuda.set_device", "    # ddpdoctor: ignore[DDP720]\n    torch.cuda.set_device")
    assert lint(tmp_path, alone) == 0


def test_a_comment_that_silences_nothing_is_noted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        lint(tmp_path, GOOD.replace("set_device(local_rank)", "set_device(local_rank)  # ddpdoctor: ignore[DDP720]"))
        == 0
    )
    assert f"note: {tmp_path}/train.py:26: `ddpdoctor: ignore[DDP720]` silences nothing" in capfd.readouterr().out


def test_json_names_the_column_and_what_it_leads_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert lint(tmp_path, SICK, "--format", "json") == 1
    (finding,) = json.loads(capfd.readouterr().out)["findings"]
    assert finding["leads_to"] == ["DDP415", "DDP401"]
    assert finding["where"][0]["column"] == 5


@pytest.mark.parametrize(("name", "text"), [("README.md", "# No code\n"), ("old.py", "print 'x'\n")])
def test_where_nothing_can_be_read_there_is_no_verdict(
    name: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert cli.run(["lint", str(tmp_path / name)]) == 3
    assert "no Python that could be read" in capfd.readouterr().out


def test_a_file_that_is_passed_over_is_noted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.py").write_text("print 'x'\n")
    (tmp_path / "train.py").write_text(GOOD)
    assert cli.run(["lint", str(tmp_path)]) == 0
    assert f"note: {tmp_path}/old.py was passed over: Python 2 at line 1" in capfd.readouterr().out


TWO_WRAPPERS = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main(batches):
    dist.init_process_group("gloo")
    actor, critic, judge = DDP(nn.Linear(4, 1)), DDP(nn.Linear(4, 1)), DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters(), *judge.parameters()], lr=0.1)
    for x in batches:
        policy = actor.module(x)
        value = critic.module(x)
        score = judge.module(x)
        (policy + value + score).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main([])
"""


def test_findings_come_by_line_in_every_process(tmp_path: Path) -> None:
    """Sets of strings have another order in every process: neither the findings nor their order depend on it."""
    script = tmp_path / "train.py"
    script.write_text(TWO_WRAPPERS)
    command = [sys.executable, "-m", "ddpdoctor", "lint", str(script), "--format", "json"]
    reports = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_SECONDS,
        ).stdout
        for seed in ("1", "2", "3")
    }

    (report,) = reports
    found = [(one["code"], one["where"][0]["line"]) for one in json.loads(report)["findings"]]
    assert [each for each in found if each[0] == "DDP740"] == [("DDP740", 12), ("DDP740", 13), ("DDP740", 14)]
