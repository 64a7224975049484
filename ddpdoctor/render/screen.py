"""How text is laid out for one terminal: its colours, its width, lines wrapped at the ends of words, and rules."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from ddpdoctor.quoting import quoted_block
from ddpdoctor.render.console import new_console

RULE_WIDTH = 100  # columns: a rule does not need to be wider than what stands between two of them
NARROWEST_BODY = 30  # columns: below that a hanging indent costs more lines than it makes clear
NARROW_INDENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A terminal, or a file where `width` is None."""

    color: bool = False
    """Whether escape sequences for colours are written."""
    width: int | None = None
    """In columns; None: lines are not wrapped, so that a search finds each sentence in one line."""
    unicode: bool = True
    """Whether the encoding has line-drawing characters."""
    directory: str = ""
    """Paths below this directory are shown relative to it; empty: no path is changed."""

    def shown(self, lines: Iterable[Text]) -> str:
        """`lines` as one string, each ending in a newline."""
        file = io.StringIO()
        console = new_console(
            file=file, force_terminal=self.color, color_system="standard" if self.color else None, width=self.width or 100,
            highlight=False, emoji=False, soft_wrap=True, no_color=not self.color,
        )  # fmt: skip
        for line in lines:
            console.print(line)
        return file.getvalue()

    def hanging(self, label: Text, body: Text) -> Iterator[Text]:
        """`label` and `body` on one line; what does not fit follows below the first column of `body`.

        A word that is longer than the line is not broken, so that a path can be copied.
        """
        label, body = self._clean(label), self._clean(body)
        indent = label.cell_len
        if self.width is not None and self.width - indent < NARROWEST_BODY:
            label, body, indent = Text(), Text.assemble(label, body), NARROW_INDENT
        for part in body.split("\n", allow_blank=True):
            for line in self._wrapped(part, indent):
                yield Text.assemble(label, line)
                label = Text(" " * indent)

    def rule(self, title: str = "", *, style: str = "") -> Text:
        """A line across the screen, with `title` in it."""
        stroke = "━" if self.unicode else "="
        text = f"{stroke * 2} {title} " if title else ""
        if not self.unicode:
            text = text.replace("·", "-")
        columns = min(self.width or RULE_WIDTH, RULE_WIDTH)
        return Text(text + stroke * max(2, columns - len(text)), style=style)

    def near(self, text: str) -> str:
        """`text` with the paths below `directory` relative to it."""
        if len(self.directory) < 2:
            return text
        return re.sub(rf"(?<![\w./~-]){re.escape(self.directory)}/(?=[\w.])", "", text)

    def _wrapped(self, text: Text, indent: int) -> Iterable[Text]:
        if self.width is None:
            return [text]
        columns = self.width - indent
        inner = len(text.plain) - len(text.plain.lstrip(" "))
        if not text.plain.strip():
            return [text]
        lines = text[inner:].divide(_line_starts(text.plain[inner:], columns - inner))
        for line in lines:
            line.rstrip()
        return [Text.assemble(" " * inner, line) for line in lines]

    def _clean(self, text: Text) -> Text:
        """`text` printable and with short paths; a style that covers a part only is kept where nothing was shortened."""
        plain = self.near(quoted_block(text.plain))
        if plain == text.plain:
            return text
        return Text.assemble(*((self.near(quoted_block(part.plain)), _style(part)) for part in _parts(text)))


def _line_starts(text: str, columns: int) -> list[int]:
    """Where a line of at most `columns` begins, other than the first; a word that is wider has a line of its own."""
    starts, used = [], 0
    for word in re.finditer(r"\S+\s*", text):
        if used and used + cell_len(word.group().rstrip()) > columns:
            starts.append(word.start())
            used = 0
        used += cell_len(word.group())
    return starts


def _parts(text: Text) -> Iterator[Text]:
    """`text`, cut where a style begins or ends."""
    cuts = sorted({span.start for span in text.spans} | {span.end for span in text.spans})
    yield from text.divide(cuts)


def _style(part: Text) -> str:
    return str(part.spans[0].style) if part.spans else str(part.style)
