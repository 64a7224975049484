"""What `verify-sync` takes for a script, and what for neither a script nor a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.checkpoints.detect import is_python_script
from ddpdoctor.cli import run
from ddpdoctor.cli.sync_targets import _is_launcher


@pytest.mark.parametrize(
    ("name", "text", "script"),
    [
        ("train.py", "{}", True),
        ("train", "#!/usr/bin/env python3\nimport torch\n", True),
        ("train", "import torch\nmain()\n", True),
        ("train", "main()\n", True),
        ("train", "#!/bin/sh\npython train.py\n", False),
        ("train", "torchrun train.py --lr 1\n", False),
        ("report", '{"schema": 1, "findings": []}', False),
        ("notes", "", False),
        ("case.json", '{"schema": 1}', False),
        ("launch.sh", "import os\n", False),
        ("config.yaml", "lr: 1\n", False),
        ("notebook.ipynb", "{}", False),
    ],
)
def test_what_python_could_be_meant_to_run(tmp_path: Path, name: str, text: str, script: bool) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert is_python_script(file) is script


def test_bytes_are_no_script(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(bytes(range(256)))
    assert not is_python_script(tmp_path / "core")
    assert not is_python_script(tmp_path)


def test_a_report_is_not_run_as_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: two reports were started as a script with an argument, on two ranks."""
    file = tmp_path / "x.json"
    file.write_text("{}")
    assert run(["verify-sync", str(file), str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file} is neither a Python script nor a checkpoint" in error
    assert "`ddpdoctor verify-sync --nproc 2 train.py`" in error


@pytest.mark.parametrize("launcher", ["torchrun", "/usr/bin/srun", "python3 -m torch.distributed.run"])
def test_a_launcher_is_not_run_as_a_script(launcher: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: two torchruns were started, with all their ranks each."""
    assert run(["verify-sync", "--", *launcher.split(), "-n", "2", "train.py"]) == 2
    error = capsys.readouterr().err
    assert f"{launcher.split()[0]} starts ranks, and verify-sync takes the script that runs in each of them" in error
    assert f"ddpdoctor watch --verify-sync -- {launcher} -n 2 train.py" in error


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (["python3.12", "train.py", "--lr", "1"], "train.py --lr 1"),
        (["/usr/bin/python", "-u", "train.py"], "SCRIPT ..."),
        (["python"], "SCRIPT ..."),
    ],
)
def test_an_interpreter_is_not_run_as_a_script(
    given: list[str], typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify-sync", "--", *given]) == 2
    error = capsys.readouterr().err
    assert f"{given[0]} is an interpreter, and verify-sync starts Python itself" in error
    assert error.endswith(f"`ddpdoctor verify-sync --nproc N {typed}`\n")


@pytest.mark.parametrize(("installed", "beside"), [(False, False), (True, False), (False, True)])
def test_a_script_with_the_name_of_a_launcher_is_refused_only_where_it_is_installed(
    installed: bool, beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "torchrun"
    script.write_text("#!/usr/bin/env python3\nimport torch\n")
    script.chmod(0o755)
    if installed:
        monkeypatch.setenv("PATH", str(tmp_path))
    if beside:
        (tmp_path / "python3").touch()
    monkeypatch.chdir(tmp_path)
    assert _is_launcher(["./torchrun", "--lr", "1"]) is (installed or beside)
