"""Who may import whom, and what the front door may cost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

ROOT = Path(__file__).parents[2]
LAZY = ("torch", "numpy", "pynvml")
IN_A_RANK = {"torch"}
IN_A_RANK_WHERE_INSTALLED = {
    "bit_parity.py": {"numpy"},
    "gradient_projection.py": {"numpy"},
    "gradients.py": {"numpy"},
    "packed_tensors.py": {"numpy"},
    "fingerprint.py": {"numpy", "xxhash"},
    "triton_row_hash.py": {"triton"},
}


def test_import_contracts_hold() -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_modules_import_each_other_in_a_ring() -> None:
    """Imports within functions and under TYPE_CHECKING count, too: such a ring is two names for one module."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (ROOT / "ddpdoctor").rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, file in files.items():
        imports = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        named = {(node.module or "", alias.name) for node in imports for alias in node.names}
        graph[name] = {full if (full := f"{module}.{part}") in files else module for module, part in named} & {*files}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", ["ddpdoctor", "ddpdoctor.cli", "ddpdoctor.engine", "ddpdoctor.case"])
def test_import_does_not_pay_for_torch(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {LAZY!r} if name in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_checks_never_import_each_other() -> None:
    files = [*(ROOT / "ddpdoctor" / "checks").glob("ddp*.py")]
    offenders = [path.name for path in files if "from ddpdoctor.checks.ddp" in path.read_text()]
    assert not offenders


def imported_by(file: Path) -> set[str]:
    """The packages outside the standard library that a file imports anywhere; relative imports count as none."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names)


def test_what_runs_in_a_users_rank_needs_torch_and_nothing_else() -> None:
    agent = ROOT / "ddpdoctor" / "agent"
    files = [*(agent / "inside").rglob("*.py"), *(agent / "on_path").rglob("*.py")]
    assert len(files) > 20
    offenders = {
        file.name: more
        for file in files
        if (more := imported_by(file) - IN_A_RANK - IN_A_RANK_WHERE_INSTALLED.get(file.name, set()))
    }
    assert not offenders
