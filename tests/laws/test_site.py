"""The published pages: the address in reports is that of the site, and its navigation leads to pages that exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddpdoctor.cli.commands import COMMANDS
from ddpdoctor.model import DOCS

ROOT = Path(__file__).parents[2]


def site() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def pages(nav: object) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case dict():
            for value in nav.values():
                yield from pages(value)
        case list():
            for value in nav:
                yield from pages(value)


def test_the_address_of_a_finding_is_on_the_site() -> None:
    assert site()["site_url"] == f"{DOCS}/"


def test_the_navigation_leads_to_pages_and_to_every_guide() -> None:
    named = {*pages(site()["nav"])} - {"reference.md"}  # made from the help while the site is built
    assert not [page for page in named if not (ROOT / "docs" / page).is_file()]
    guides = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "guide").glob("*.md")}
    assert guides <= named


def test_the_site_is_built_strictly_in_ci() -> None:
    assert site()["strict"] is True
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert any("make docs" in step.get("run", "") for job in jobs.values() for step in job["steps"])


@pytest.mark.parametrize("command", ["smoke --nproc 2", "lint --format github ."])
def test_the_action_runs_commands_that_exist(command: str) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert command in action["inputs"]["command"]["description"]
    assert command.split()[0] in COMMANDS
