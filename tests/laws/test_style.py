"""Ruff and strict mypy have nothing to say."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], ["interrogate", "-q", "ddpdoctor"]],
    ids=" ".join,
)
@pytest.mark.timeout(300)
def test_tool_is_silent(command: list[str]) -> None:
    tool, *arguments = command
    ended = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_file_is_called_utils() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "manager.py"}
    found = [path for top in ("ddpdoctor", "probes", "reference_train") for path in (ROOT / top).rglob("*.py")]
    assert not [path for path in found if path.name in banned]


def test_torch_is_pinned_for_development_only() -> None:
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()


DOCUMENTED = ("ddpdoctor/model.py", *(f"ddpdoctor/{folder}" for folder in ("evidence", "agent/inside/schema")))


def test_every_field_of_what_parts_exchange_has_its_own_docstring() -> None:
    """Evidence, findings and what a rank writes are read by people who did not write them."""
    files = [file for name in DOCUMENTED for file in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    assert len(files) > 25
    bare = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                text = after.value if isinstance(after, ast.Expr) else None
                if isinstance(field, ast.AnnAssign) and not isinstance(text, ast.Constant):
                    bare.append(f"{file.relative_to(ROOT)}: {node.name}.{ast.unparse(field.target)}")
    assert not bare, "\n".join(bare)
