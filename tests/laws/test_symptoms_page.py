"""docs/symptoms.md is what the code makes of the symptoms and of the rules' error texts."""

from __future__ import annotations

from pathlib import Path

from ddpdoctor.catalogue import all_rules
from ddpdoctor.render.explanation import index_page

PAGE = Path(__file__).parents[2] / "docs" / "symptoms.md"


def test_the_page_is_the_index() -> None:
    assert PAGE.read_text(encoding="utf-8") == index_page(all_rules()), (
        "the index has changed: `ddpdoctor explain --index > docs/symptoms.md`"
    )
