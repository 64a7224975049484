"""The page of a finding for a reader: what it means, what to do, how it is found; as markdown or as plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import groupby

WIDTH = 80  # of plain text: a terminal that nobody has widened
ORDER = ("What it means", "What to do", "How it is found", "Reproduce it")
_SECTION = re.compile(r"^## ", re.MULTILINE)
_LINK = re.compile(r"\[([^\][]{1,200})\]\([^()\s]{1,500}\)")
_ITEM = re.compile(r"(?:[-*]|\d{1,3}\.) ")
_CODE = re.compile(r"`[^`]{1,200}`")
_FENCE = "```"
_GLUE = "\0"  # a space at which no line is broken


def in_readers_order(page: str) -> str:
    """`page`, markdown, with its sections in the order in which somebody with a sick job needs them."""
    top, *sections = _SECTION.split(page)
    place = {title: number for number, title in enumerate(ORDER)}
    sections.sort(key=lambda section: place.get(section.split("\n", 1)[0].strip(), len(ORDER)))
    return "\n\n".join([top.strip(), *(f"## {section.strip()}" for section in sections)]) + "\n"


def as_plain_text(page: str) -> str:
    """`page`, markdown, as text without markup, for a file or a pipe."""
    blocks = (_plain(block) for block in _blocks(in_readers_order(page)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(page: str) -> Iterator[list[str]]:
    """Paragraphs, and blocks of code as they are with four spaces before each line."""
    block: list[str] = []
    code = False
    for line in page.split("\n"):
        if line.startswith(_FENCE):
            yield block
            block, code = [], not code
        elif code:
            block.append(f"    {line}".rstrip())
        elif line.strip():
            block.append(line)
        else:
            yield block
            block = []
    yield block


def _plain(block: list[str]) -> str:
    if not block:
        return ""
    if block[0].startswith("#"):
        title = block[0].lstrip("# ")
        if block[0].startswith("### "):
            return f"{title}:"
        return f"{title}\n{('=' if block[0].startswith('# ') else '-') * len(title)}"
    if block[0].startswith(("    ", "|")):
        return "\n".join(block)
    number = 0
    items: list[tuple[int, str]] = []
    for line in block:
        number += bool(_ITEM.match(line))
        items.append((number, line.strip()))
    return "\n".join(
        _filled(" ".join(line for _, line in lines)) for _, lines in groupby(items, key=lambda item: item[0])
    )


def _filled(text: str) -> str:
    """`text` without markup in lines of `WIDTH`; a command in backquotes stays on one line, and an item hangs under its text."""
    item = _ITEM.match(text)
    plain = _LINK.sub(r"\1", text).replace("**", "")
    glued = _CODE.sub(lambda code: code.group().replace(" ", _GLUE), plain)
    return textwrap.fill(
        glued,
        WIDTH,
        subsequent_indent=" " * (item.end() if item is not None else 0),
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(_GLUE, " ")
