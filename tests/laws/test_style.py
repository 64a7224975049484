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
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=" ".join,
)
def test_tool_is_silent(command: list[str]) -> None:
    tool, *arguments = command
    ended = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_file_is_called_utils() -> None:
    banned = {"utils.py", "helpers.py", "common.py", "manager.py"}
    found = [path for top in PACKAGES for path in (ROOT / top).rglob("*.py")]
    assert not [path for path in found if path.name in banned]


def test_torch_is_pinned_for_development_only() -> None:
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()


PACKAGES = ("ddpdoctor", "probes", "reference_train")


def undocumented_fields(source: str) -> list[str]:
    """`Class.field` of each public annotated field without a docstring of its own, in public classes."""
    bare = []
    for node in ast.walk(ast.parse(source)) if "class " in source else ():
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name)), _ if not name.startswith("_"):
                    bare.append(f"{node.name}.{name}")
    return bare


def test_every_public_field_has_its_own_docstring() -> None:
    """A reader sees what a field is, in which unit, and when it is None, without reading how it is made."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 700
    bare = [
        f"{file.relative_to(ROOT)}: {name}" for file in files for name in undocumented_fields(file.read_text("utf-8"))
    ]
    assert not bare, "\n".join(bare)


def test_a_field_without_a_docstring_is_seen() -> None:
    documented = '''
class Link:
    """A link."""
    source: int
    """The node that sends."""
    target: int
    """The node that receives."""
    _age: int = 0
'''
    source = documented.replace('    """The node that sends."""\n', "")
    assert not undocumented_fields(documented)
    assert undocumented_fields(source) == ["Link.source"]
    assert not undocumented_fields(source.replace("class Link", "class _Link"))
