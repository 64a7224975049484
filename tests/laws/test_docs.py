"""What README and the guides show is what the program says."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.catalogue import all_rules
from ddpdoctor.cli.commands import COMMANDS
from tests.waiting import PROGRAM_SECONDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HELP = re.compile(r"^\$ (ddpdoctor[^\n]*--help)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page, *match) for page in PAGES for match in HELP.findall(page.read_text())]


def said(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "ddpdoctor"
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", *arguments],
        env={**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": "80"},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=True,
    )
    return ended.stdout


def test_readme_shows_the_help() -> None:
    assert ("README.md", "ddpdoctor --help") in [(page.name, command) for page, command, _ in BLOCKS]


@pytest.mark.parametrize(("page", "command", "shown"), BLOCKS, ids=[f"{p.name}: {c}" for p, c, _ in BLOCKS])
def test_a_help_block_equals_the_real_help(page: Path, command: str, shown: str) -> None:
    assert shown.strip() == said(command).strip()


def test_no_command_is_cut_short_in_the_help_of_an_80_column_terminal() -> None:
    assert "..." not in said("ddpdoctor --help").partition("Commands:")[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        made = page.parent / target == ROOT / "docs" / "reference.md"  # from the help, while the site is built
        assert made or (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_in_links_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_codes_named_in_pages_exist(page: Path) -> None:
    text = page.read_text()
    known = {rule.code for rule in all_rules()} | set(re.findall(r'code="(DDP\d+)"', text))  # an example names its own
    named = set(re.findall(r"\bDDP[1-7]\d\d\b", text))
    assert named <= known, f"{page.name} names {sorted(named - known)}"


@pytest.fixture(scope="module")
def texts_of_the_code() -> str:
    files = [path for top in ("ddpdoctor", "reference_train") for path in (ROOT / top).rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_findings_that_a_page_shows_have_the_names_and_remedies_of_today(page: Path, texts_of_the_code: str) -> None:
    """The beginning of a remedy stands in the code as it is; its end may hold what the evidence said."""
    rules = {rule.code: rule for rule in all_rules()}
    shown = re.findall(
        r"^ *(?:(?:FAIL|WARN|INFO) )?(DDP\d{3}) ([a-z0-9-]+): (.*?)(?=^ *```|^\s*$|^ *(?:[A-Z]{4} )?DDP)",
        page.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    for code, name, text in shown:
        assert name == rules[code].name
        for remedy in re.findall(r"what to do: (.{,30})", text):
            assert remedy in texts_of_the_code, f"{page.name}: {code} advises otherwise now: {rules[code].remedy}"


def test_every_command_has_its_guide() -> None:
    short = {"checks"}  # their --help says it all
    missing = [
        name
        for name in (command.replace("_", "-") for command in COMMANDS)
        if name not in short and not (ROOT / "docs" / "guide" / f"{name}.md").exists()
    ]
    assert not missing


TALLY = re.compile(r"^ *(\d+) checks? skipped: .*\n(?:.*\n)?? *.*\(\d+ checks? ran, (\d+) skipped\)$", re.MULTILINE)
SCREENS = [(page, *match) for page in PAGES for match in TALLY.findall(page.read_text())]


@pytest.mark.parametrize(("page", "named", "counted"), SCREENS, ids=[page.name for page, *_ in SCREENS])
def test_a_screen_counts_the_skipped_checks_once(page: Path, named: str, counted: str) -> None:
    assert named == counted


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "guide" / "smoke.md"], ids=lambda page: page.name)
def test_the_screen_of_smoke_is_whole_with_its_frame(page: Path) -> None:
    shown = page.read_text().split("$ ddpdoctor smoke --nproc 2\n", 1)[1]
    stages, verdict = shown.split("━━ ddpdoctor smoke · ", 1)
    assert [line.split()[0] for line in stages.splitlines() if line.strip()] == ["env", "bench", "verify-sync", "train"]
    assert re.search(r"\(\d+ checks ran, \d+ skipped\)\n *━+\n", verdict.split("```")[0])
