"""Comments that silence findings: `# ddpdoctor: ignore[DDP711] reason`, on the line or alone on the line before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ddpdoctor.evidence.training_code import Remark

_REMARK = re.compile(r"#\s*ddpdoctor:\s*ignore(?: ?\[([^\]]{0,200})|\(([^)]{0,200}))?")
"""Codes stand in brackets; round ones right behind the word are taken for these, so that a slip does not silence all codes."""


def remarks_in(text: str, place: Callable[[int], tuple[str, int]]) -> Iterator[Remark]:
    """Every such comment; `place` gives the file and line that people see for a line of the text."""
    if "ddpdoctor:" not in text:
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if match := _REMARK.search(line):
            alone = line.lstrip().startswith("#")
            after = (at for at in range(number + 1, len(lines) + 1) if lines[at - 1].strip())
            file, shown = place(next(after, number) if alone else number)
            codes = tuple(code.strip() for code in (match[1] or match[2] or "").split(",") if code.strip())
            yield Remark(file=file, line=shown, codes=codes)
