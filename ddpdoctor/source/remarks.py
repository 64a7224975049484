"""Comments that silence findings: `# ddpdoctor: ignore[DDP711] reason`, on a line of the statement or alone above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ddpdoctor.evidence.remarks import Remark
from ddpdoctor.source.statement_lines import Comment

_REMARK = re.compile(
    r"#\s{0,20}ddpdoctor:\s{0,20}ignore(?![\w-])"
    r"(?:\(([^)]{0,200})|\s{0,20}[:=]?\s{0,20}(?:\[([^\]]{0,200})|\(?((?:\s{0,20}DDP\d{3}\b,?){1,20})))?",
    re.IGNORECASE,
)
"""Codes stand in brackets; round ones right behind the word, or none, are a slip that does not silence all codes."""
_REASON = re.compile(r"(?:^|\s)[-\u2013\u2014]{1,3}(?:\s|$)|:(?:\s|$)")
"""What begins a reason behind the codes: a dash or a colon that stands alone, or a colon behind the last code."""


def remarks_in(
    text: str, place: Callable[[int], tuple[str, int]], comments: Callable[[str], Sequence[Comment]]
) -> Iterator[Remark]:
    """Every such comment; `place` gives the file and line that people see for a line of the text."""
    if "ddpdoctor:" not in text.lower():
        return
    for comment in comments(text):
        file, line = place(comment.line)
        first, last = (place(at) for at in comment.about)
        about = (first[1], last[1]) if first[0] == file else (line, line)  # not the next cell's
        for match in _REMARK.finditer(comment.text):
            named = _REASON.split(match[1] or match[2] or match[3] or "", maxsplit=1)[0]
            codes = (word for word in re.split(r"[,\s]+", named) if any(map(str.isalnum, word)))
            yield Remark(file=file, line=line, about=about, codes=tuple(codes))
