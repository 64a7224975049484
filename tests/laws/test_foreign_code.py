"""No program of ours imports from the working directory: whoever may write there would run code as whoever runs ddpdoctor."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

ROOT = Path(__file__).parents[2]
DDPDOCTOR = Path(sys.executable).with_name("ddpdoctor")
OURS = ("torch", "numpy", "typer", "click", "rich", "psutil", "msgspec", "packaging", "ddpdoctor", "sitecustomize")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module of every name that a program of ours could import; each leaves a mark when it is run."""
    folder = tmp_path_factory.mktemp("planted")
    marks = tmp_path_factory.mktemp("marks")
    for name in {*sys.stdlib_module_names, *OURS} - {"__main__"}:
        (folder / f"{name}.py").write_text(f"open({str(marks / name)!r}, 'w'); raise SystemExit('planted {name}')\n")
    (folder / "marks").symlink_to(marks)
    return folder


def run_there(planted: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [DDPDOCTOR, *arguments], cwd=planted, env=environ, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("allreduce-bench", "--nproc", "2", "--sizes", "1K", "--time-budget", "1"),
        pytest.param(("env",), marks=pytest.mark.slow),
        pytest.param(
            ("smoke",), marks=[pytest.mark.matrix, pytest.mark.timeout(300)]
        ),  # it runs the programs of the others
        pytest.param(("verify-sync", "--nproc", "2"), marks=pytest.mark.slow),
        pytest.param(("train", "--nproc", "2", "--max-steps", "5"), marks=pytest.mark.slow),
        pytest.param(("net", "--deadline", "5"), marks=pytest.mark.slow),
        pytest.param(("port",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_nothing_in_the_working_directory_is_run(planted: Path, arguments: tuple[str, ...]) -> None:
    ended = run_there(planted, *arguments)
    assert not os.listdir(planted / "marks")
    assert ended.returncode in {0, 1}, ended.stdout + ended.stderr
    assert "planted" not in ended.stderr


def test_a_planted_module_would_be_found(planted: Path) -> None:
    """With `python -m`, as before: the test can fail."""
    ended = subprocess.run(
        [sys.executable, "-m", "json.tool"],
        cwd=planted,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert "planted" in ended.stderr
    for mark in (planted / "marks").iterdir():
        mark.unlink()


def test_no_command_of_ours_starts_python_with_m_or_c() -> None:
    """Both put the working directory first on the path; with -I they do not."""
    found = []
    for file in (ROOT / "ddpdoctor").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "sys.executable" in text else ():
            if isinstance(node, ast.List) and any(ast.unparse(item) == "sys.executable" for item in node.elts):
                words = {item.value for item in node.elts if isinstance(item, ast.Constant)}
                if words & {"-m", "-c"} and "-I" not in words:
                    found.append(f"{file.name}:{node.lineno}")
    assert not found
