"""Pages are read at night, often not in one's own language: their paragraphs and sentences are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs" / "findings").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]
MOST_WORDS_OF_A_PARAGRAPH, MOST_WORDS_OF_A_SENTENCE = 90, 45
NO_PROSE = re.compile(r"^ *```.*?^ *```|^    .*?$|^\|.*?$|^#.*?$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ", re.MULTILINE)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and items of lists, without code blocks, tables and headings."""
    yield from filter(None, map(str.strip, re.split(r"\n\s*\n", ITEM.sub("\n\n", NO_PROSE.sub("", text)))))


def sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.:;!?])\s", paragraph)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paragraphs_and_sentences_are_short(page: Path) -> None:
    for paragraph in paragraphs(page.read_text()):
        assert len(paragraph.split()) <= MOST_WORDS_OF_A_PARAGRAPH, paragraph
        assert max(len(sentence.split()) for sentence in sentences(paragraph)) <= MOST_WORDS_OF_A_SENTENCE, paragraph
