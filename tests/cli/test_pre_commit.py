"""`.pre-commit-hooks.yaml`, as pre-commit runs it in somebody's repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.training_programs import GOOD
from tests.waiting import PROGRAM_SECONDS

MANIFEST = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "PRE_COMMIT_HOME": str(folder / ".cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our hook, run from this environment: pre-commit would install torch for it."""
    pytest.importorskip("pre_commit")
    hooks = [{**hook, "language": "system"} for hook in yaml.safe_load(MANIFEST.read_text())]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "pyproject.toml").write_text('[tool.ddpdoctor.lint]\nexclude = ["old"]\n')
    (tmp_path / "train.py").write_text(GOOD)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "train.py").write_text(GOOD.replace("set_device(local_rank)", "set_device(rank)"))
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntorchrun --standalone --nproc-per-node 8 train.py\n")
    (tmp_path / "notes.md").write_text("# Notes\n")
    assert run(*GIT, "init", "-q", folder=tmp_path).returncode == 0
    run(*GIT, "add", ".", folder=tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_hook_passes_a_healthy_repository_and_names_the_line_of_a_sick_one(repository: Path) -> None:
    ended = run(sys.executable, "-m", "pre_commit", "run", "--all-files", folder=repository)
    assert ended.returncode == 0, ended.stdout + ended.stderr

    (repository / "train.py").write_text(GOOD.replace("set_device(local_rank)", "set_device(rank)"))
    ended = run(sys.executable, "-m", "pre_commit", "run", "--all-files", folder=repository)
    assert ended.returncode == 1
    assert "train.py:26:5: DDP720 device-from-global-rank" in ended.stdout


def test_the_manifest_is_valid(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    ended = run(sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST), folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
