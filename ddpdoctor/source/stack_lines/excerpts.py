"""The lines of the user's source files that a report shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ddpdoctor.evidence.source import CodePlace, SourceCode
from ddpdoctor.source.stack_lines.source_files import source_bytes, source_lines

LINES_AROUND = 3  # before and after a line, for a report
MAX_LINE = 200  # characters of a line in a report


def excerpts_at(places: Iterable[tuple[str, int]]) -> SourceCode:
    """The lines around `places` (file, line) of text files, for a report; what cannot be read is left out.

    Lines of a notebook are those of its cells and do not stand in its file.
    """
    found = []
    for file, group in itertools.groupby(sorted(places), key=lambda place: place[0]):
        text = source_bytes(file) if not file.endswith(".ipynb") else None
        if text is not None:
            lines = source_lines(text)
            found += [
                CodePlace(file=file, line=line, function="", excerpt=excerpt, excerpt_from=first)
                for _, line in group
                for first, excerpt in [excerpt_at(lines, line)]
                if len(excerpt) > line - first
            ]
    return SourceCode(places=tuple(found))


def excerpt_at(lines: Sequence[str], line: int) -> tuple[int, tuple[str, ...]]:
    """The number of the first line that a report shows for `line`, and the text from there on."""
    first = max(1, line - LINES_AROUND)
    return first, tuple(text.rstrip("\r")[:MAX_LINE] for text in lines[first - 1 : line + LINES_AROUND])
