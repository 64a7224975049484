"""The HTML report in Chromium: it renders without an error or a request, fits a phone, and is accessible.

The check of accessibility covers what a report can get wrong: headings in order, names of pictures, tables and scrolled
regions, unique ids, and the contrast of all text (WCAG 2: 4.5, or 3 for large text) in light and in dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.render import html
from tests.browser import Browser, browser
from tests.render.html import PAGES

STRUCTURE = Path(__file__).with_name("structure.js").read_text()
CONTRAST = Path(__file__).with_name("contrast.js").read_text()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, evidence in PAGES.items():
        (folder / f"{name}.html").write_text(html.render(diagnose(evidence), evidence, title="ddpdoctor"))
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_it_renders_and_says_nothing_to_the_console(name: str, chromium: Browser, folder: Path) -> None:
    page = folder / f"{name}.html"
    chromium.open(page)
    assert chromium.evaluate("document.querySelector('h1').getBoundingClientRect().height > 10")
    assert chromium.evaluate("getComputedStyle(document.body).maxWidth") == "1180px", "the style is not applied"
    assert [url for url in chromium.requests if not url.startswith("data:")] == [page.as_uri()]
    assert chromium.messages == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_structure_and_contrast_are_accessible(name: str, scheme: str, chromium: Browser, folder: Path) -> None:
    chromium.open(folder / f"{name}.html", scheme=scheme, height=8000)
    assert chromium.evaluate(STRUCTURE) == []
    contrast = chromium.evaluate(CONTRAST)
    assert contrast["seen"] > 5
    assert contrast["wrong"] == []


@pytest.mark.parametrize("name", PAGES)
def test_it_fits_a_phone_and_paper(name: str, chromium: Browser, folder: Path) -> None:
    chromium.open(folder / f"{name}.html", width=360, height=740)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 360
    chromium.open(folder / f"{name}.html", media="print")
    assert chromium.evaluate(
        "[...document.querySelectorAll('details p, details li, details td')].every(e => e.checkVisibility())"
    )


def test_the_check_of_accessibility_can_fail(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<h1>One</h1><h3 style='color:#aaa;background:#fff'>Three levels down</h3><svg></svg><script>console.log(1)</script>"
    )
    chromium.open(page)
    assert {"no language", "h3 follows h1: Three levels down", "picture without a text"} <= {
        *chromium.evaluate(STRUCTURE)
    }
    assert chromium.evaluate(CONTRAST)["wrong"] == ["2.32: Three levels down ()"]
    assert chromium.messages
