"""Python text out of files: modules, the cells of notebooks, and the code blocks of Markdown, each with the lines people see."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 1 << 20  # no file that a person writes is that long
MOST_NOTEBOOK_BYTES = 1 << 25  # notebooks hold pictures
_MAGIC = re.compile(r"^\s*(?:[%!?]|\w+\?)")
_RUNS_ITS_LINE = re.compile(r"^(\s*)%(?:time|timeit|prun) +(?:-\w+ +)*([^-\s].*)$")
_RUNS_ITS_CELL = ("%%time", "%%timeit", "%%capture", "%%prun")
_ASSIGNS = re.compile(r"^([\s\w.,]+=) *[%!]")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[ \t]*\{?\.?(\w*)")
_PYTHON = frozenset({"python", "py", "python3", "pycon3", "ipython"})


@dataclass(frozen=True, slots=True)
class PythonText:
    """One module's text, parsed; `places` is the file and line of each of its lines, empty where they are the file's own."""

    text: str
    tree: ast.Module
    places: tuple[tuple[str, int], ...] = ()


class Unreadable(Exception):  # noqa: N818 - a reason, shown as a note
    """A file is passed over; the message says why."""


def parse(file: str, data: bytes) -> list[PythonText]:
    """The Python in a file by its suffix: `.py` one module, `.ipynb` one, `.md` one for each block that parses.

    Raises:
        Unreadable: it is too long, no Python 3, or no notebook.
    """
    if len(data) > (MOST_NOTEBOOK_BYTES if file.endswith(".ipynb") else MOST_BYTES):
        raise Unreadable(f"{len(data) / (1 << 20):.1f} MiB: too large to be written by hand")
    if file.endswith(".ipynb"):
        return [_notebook(file, data)]
    text = _decoded(data)
    if file.endswith((".md", ".markdown")):
        return list(_blocks(text))
    return [PythonText(text, parsed(text))]


def parsed(text: str) -> ast.Module:
    """The tree of a text.

    Raises:
        Unreadable: it does not parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in other people's strings
            return ast.parse(text)
    except SyntaxError as error:
        old = re.search(r"^\s*(?:print\s+[\"'\w]|exec\s+[\"']|except\s+\w+\s*,\s*\w+\s*:)", text, re.MULTILINE)
        if error.lineno is None:
            raise Unreadable(error.msg) from None
        what = "Python 2" if old else "a syntax error"
        raise Unreadable(f"{what} at line {error.lineno}") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply") from None


def _decoded(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (SyntaxError, UnicodeDecodeError, LookupError):
        raise Unreadable("its encoding is not known") from None


def _notebook(file: str, data: bytes) -> PythonText:
    try:
        document = json.loads(data)
        cells = document["cells"]
        code = [
            (number, _source(cell)) for number, cell in enumerate(cells, start=1) if cell.get("cell_type") == "code"
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("no notebook") from None
    lines: list[str] = []
    places: list[tuple[str, int]] = []
    for number, source in code:
        cell = [_without_magic(line) for line in source.split("\n")]
        magic = source.lstrip().partition("\n")[0].split(" ")[0]
        if (magic.startswith("%%") and magic not in _RUNS_ITS_CELL) or not _parses("\n".join(cell)):
            continue
        lines += cell
        places += [(f"{file}:cell {number}", at) for at in range(1, len(cell) + 1)]
    text = "\n".join(lines)
    return PythonText(text, parsed(text), tuple(places))


def _source(cell: dict[str, object]) -> str:
    source = cell.get("source", "")
    return "".join(str(part) for part in source) if isinstance(source, list) else str(source)


def _without_magic(line: str) -> str:
    if runs := _RUNS_ITS_LINE.match(line):
        return runs[1] + runs[2]
    if assigned := _ASSIGNS.match(line):
        return f"{assigned[1]} None"
    if not _MAGIC.match(line):
        return line
    return f"{line[: len(line) - len(line.lstrip())]}pass"


def _parses(text: str) -> bool:
    try:
        parsed(text)
    except Unreadable:
        return False
    return True


def _blocks(text: str) -> Iterator[PythonText]:
    """Each Python block with empty lines before it, so that its lines have the numbers of the file's."""
    fence, first, block = "", 0, list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        match = _FENCE.match(line)
        if not fence and match:
            fence, first, block = match[1], number if match[2].lower() in _PYTHON else 0, []
        elif fence and line.strip() == fence:
            code = "\n" * first + "\n".join(block)
            if first and _parses(code):
                yield PythonText(code, parsed(code))
            fence = ""
        elif fence:
            block.append(line)
