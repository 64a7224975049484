"""Files of Python as the sources of a program, and those that their imports name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.regular_file import read_regular
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.python_text import Unreadable, parse
from ddpdoctor.source.syntax.walk import walk

MOST_LOADED = 400  # files that are read because an import names them, though nobody did


class Loader:
    """Reads files that imports name, up to a limit."""

    def __init__(self, most: int = MOST_LOADED) -> None:
        self.left = most
        """How many more it reads."""

    def __call__(self, file: str) -> Source | None:
        """The source in a file; None where it cannot be read, or enough were."""
        if not self.left:
            return None
        self.left -= 1
        try:
            return next(iter(sources_in(file, read_regular(Path(file)))), None)
        except (OSError, Unreadable):
            return None


def sources_in(file: str, data: bytes, *, walked: bool = True) -> Iterator[Source]:
    """The modules in a file: one, or each of a notebook or a page.

    Raises:
        Unreadable: it is no Python, or nested too deeply.
    """
    for number, part in enumerate(parse(file, data)):
        name = file if not number else f"{file}#{number}"
        try:
            scopes = walk(part.tree, name) if walked else []
        except RecursionError:
            raise Unreadable("nested too deeply") from None
        yield Source(name, scopes, part.text, os.path.dirname(file), part.places)  # noqa: PTH120 - strings throughout


def all_sources(project: Project) -> Iterator[Source]:
    """Every source, and every one that those import."""
    pending = list(project.sources.values())
    seen = {source.file for source in pending}
    while pending:
        source = pending.pop()
        yield source
        for file in project.imports(source):
            if file not in seen:
                seen.add(file)
                pending.append(project.sources[file])
