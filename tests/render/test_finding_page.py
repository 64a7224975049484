"""The page of a finding reads as text, and what to do comes before how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.render.finding_page import ORDER, as_plain_text

PAGES = sorted((Path(__file__).parents[2] / "docs" / "findings").glob("DDP*.md"))
PAGE = """# DDP999 a-name

## What it means

Some ranks **wait** for [DDP305](DDP305.md),
in `barrier`.

- one item
  of two lines
- another one

## How it is found

By looking.

### From dumps alone

- **Of two ranks**: both.

| a | b |
|---|---|
| [x](y.md) | 2 |

## What to do

Mend it:

```
# a comment
mend --it
```
"""
TEXT = """DDP999 a-name
=============

What it means
-------------

Some ranks wait for DDP305, in `barrier`.

- one item of two lines
- another one

What to do
----------

Mend it:

    # a comment
    mend --it

How it is found
---------------

By looking.

From dumps alone:

- Of two ranks: both.

| a | b |
|---|---|
| [x](y.md) | 2 |
"""


def test_a_page_as_text() -> None:
    assert as_plain_text(PAGE) == TEXT


def test_a_line_of_text_fits_a_terminal_of_80_columns() -> None:
    page = f"# DDP999 a-name\n\n{'word ' * 40}\n\n- {'item ' * 40}\n"
    assert max(map(len, as_plain_text(page).splitlines())) <= 80


def test_a_command_is_not_broken_and_a_numbered_item_hangs_under_its_text() -> None:
    page = f"# DDP999 a-name\n\n1. {'word ' * 13}`ddpdoctor watch --kill-on-hang` then\n"
    assert as_plain_text(page).endswith("word\n   `ddpdoctor watch --kill-on-hang` then\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_its_sections_in_order(page: Path) -> None:
    text = as_plain_text(page.read_text())
    places = [text.index(f"\n{title}\n---") for title in ORDER]
    assert places == sorted(places)
    assert "](DDP" not in "\n".join(line for line in text.splitlines() if not line.startswith("|"))
