"""The map of the repository is true: its paths and names exist, and every command lists the readers that it imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ddpdoctor.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = (
    "docs/where-things-are.md",
    "docs/architecture.md",
    "docs/adding-a-check.md",
    "docs/glossary.md",
    "CONTRIBUTING.md",
)
TOPS = (
    "probes/",
    "reference_train/",
    "tests/",
    "docs/",
    "ddpdoctor/",
    ".ci/",
    ".github/",
    "pyproject.toml",
    "Makefile",
)
PLACEHOLDER = re.compile(r"[A-Z]{4}|NNN|NAME|\.\.\.|\*")
LISTED = (
    "workflows",
    "host",
    "source",
    "templates",
    "checkpoints",
)  # the packages of which a command lists what it imports
MAP = (ROOT / PAGES[0]).read_text()
SECTIONS = dict(re.findall(r"^### ([a-z-]+)\n(.*?)(?=^##)", MAP, flags=re.MULTILINE | re.DOTALL))


def paths_in(text: str) -> set[tuple[str, str]]:
    """The paths in code spans outside code blocks, each with the name behind its colon or an empty string."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([\w./-]+(?:\.py|\.md|\.toml|\.json|/))(?::([A-Z_a-z.]+))?`", prose)
    return {(path, name) for path, name in spans if not PLACEHOLDER.search(path)}


def located(path: str) -> Path:
    return ROOT / path if path.startswith(TOPS) else ROOT / "ddpdoctor" / path


def names_in(file: Path) -> set[str]:
    """Classes, functions, constants, and `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                found.add(node.name)
                found |= {f"{node.name}.{each.name}" for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
            case ast.Assign(targets=targets):
                found |= {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_name_exists(page: str) -> None:
    named = paths_in((ROOT / page).read_text())
    assert not [path for path, _ in named if not located(path).exists()], page
    lost = [f"{path}:{name}" for path, name in named if name and name not in names_in(located(path))]
    assert not lost, f"{page}: {lost}"


def test_every_command_has_its_section() -> None:
    assert set(SECTIONS) == {name.replace("_", "-") for name in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_lists_what_it_imports(command: str) -> None:
    section = {located(path) for path, _ in paths_in(SECTIONS[command.replace("_", "-")])}
    file = ROOT / "ddpdoctor" / "cli" / f"{command}.py"
    assert file in section
    imported = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)}
    names = [name.split(".") for name in imported if name and name.startswith("ddpdoctor.")]
    expected = {(ROOT / Path(*name)).with_suffix(".py") for name in names if name[1] in LISTED}
    assert not {path.relative_to(ROOT).as_posix() for path in expected - section}


def test_every_folder_is_explained() -> None:
    table = {path for path, _ in paths_in(MAP.partition("## By folder")[2])}
    folders = {f"{path.parent.name}/" for path in (ROOT / "ddpdoctor").glob("*/__init__.py")}
    assert folders <= table


def test_the_architecture_shows_the_layers_in_their_order() -> None:
    """As import-linter enforces them."""
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11's tomllib")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"ddpdoctor\.(\w+)", layer) for layer in contracts[0]["layers"]]
    table = (ROOT / "docs" / "architecture.md").read_text().partition("| layer, from top")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert rows == layers


def test_a_path_or_name_that_is_gone_is_found() -> None:
    text = "see `host/gone.py:Reader`, `host/` and\n```\n`host/example.py`\n```\n"
    assert paths_in(text) == {("host/gone.py", "Reader"), ("host/", "")}
    assert not located("host/gone.py").exists()
    assert "COLLECTORS" in names_in(located("host/collect_all.py"))
    assert "Reader" not in names_in(located("host/collect_all.py"))
