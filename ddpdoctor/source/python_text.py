"""Python text out of files: modules, the cells of notebooks, and the code blocks of Markdown, each with the lines people see."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.source.joined_blocks import joined
from ddpdoctor.source.notebooks import SUFFIX, Cell, code_cells, encoding_of, place_in

_LONG_NUMBER = re.compile(r"\b0[xXoObB]\w{3500}")
MOST_BYTES = 1 << 20  # no file that a person writes is that long
MOST_NOTEBOOK_BYTES = 1 << 25  # notebooks hold pictures
MOST_WORDS = 400_000  # names, numbers and signs of one text, each some 500 bytes of its tree; a MiB that people write has 250,000
MOST_BLOCKS = 2_000  # of one Markdown file
MARKDOWN = (".md", ".markdown")
_WORD = re.compile(r"\w+|[^\w\s]")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[ \t]*\{?\.?(\w*)")
_PYTHON = frozenset({"python", "py", "python3", "pycon3", "ipython"})


@dataclass(frozen=True, slots=True)
class PythonText:
    """One module's text, parsed."""

    text: str
    """The text that `tree` is of: of a notebook all its code cells, without magics."""
    tree: ast.Module
    """The syntax tree, with lines of `text`."""
    places: tuple[tuple[str, int], ...] = ()
    """File and line that people see for each line of `text`; empty where they are the file's own."""


class Unreadable(Exception):  # noqa: N818 - a reason, shown as a note
    """A file is passed over; the message says why."""


def parse(file: str, data: bytes) -> list[PythonText]:
    """The Python in a file by its suffix: `.py` one module, `.ipynb` one, `.md` one for each program in its blocks.

    Raises:
        Unreadable: it is too long, no Python 3, or no notebook.
    """
    if len(data) > (MOST_NOTEBOOK_BYTES if file.endswith(SUFFIX) else MOST_BYTES):
        raise Unreadable(f"{len(data) / (1 << 20):.1f} MiB: too large to be written by hand")
    if file.endswith(SUFFIX):
        return [_notebook(file, data)]
    text = _decoded(data)
    if file.endswith(MARKDOWN):
        return list(_blocks(file, text))
    return [PythonText(text, parsed(text))]


def parsed(text: str) -> ast.Module:
    """The tree of a text.

    Raises:
        Unreadable: it does not parse.
    """
    if len(text) > MOST_BYTES or (len(text) > MOST_WORDS and sum(1 for _ in _WORD.finditer(text)) > MOST_WORDS):
        raise Unreadable(f"more than {MOST_WORDS:,} words: too large to be written by hand")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in other people's strings
            tree = ast.parse(text)
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
    if _LONG_NUMBER.search(text):
        raise Unreadable("a number with thousands of digits")  # Python parses it, and refuses to write it
    return tree


def _decoded(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (SyntaxError, UnicodeDecodeError, LookupError):
        raise Unreadable("its encoding is not known") from None


def _notebook(file: str, data: bytes) -> PythonText:
    try:
        cells = python_cells(data.decode(encoding_of(data), "surrogatepass"))
    except (ValueError, RecursionError):
        raise Unreadable("no notebook") from None
    lines = [line for cell in cells for line in cell.lines]
    places = [(place_in(file, cell.number), at) for cell in cells for at in range(1, len(cell.lines) + 1)]
    text = "\n".join(lines)
    return PythonText(text, parsed(text), tuple(places))


def python_cells(text: str) -> list[Cell]:
    """The cells of a notebook that are Python.

    Raises:
        ValueError: it is no notebook.
    """
    return [cell for cell in code_cells(text) if cell.is_python and _parses("\n".join(cell.lines))]


def _parses(text: str) -> bool:
    try:
        parsed(text)
    except Unreadable:
        return False
    return True


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A block of Python in a Markdown file."""

    code: str
    """Its text, without the fences."""
    before: int
    """How many lines of the file stand before it."""


def python_blocks(text: str) -> Iterator[CodeBlock]:
    """The blocks of a Markdown file that are Python."""
    fence, first, block = "", 0, list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        match = _FENCE.match(line)
        if not fence and match:
            fence, first, block = match[1], number if match[2].lower() in _PYTHON else 0, []
        elif fence and line.strip() == fence:
            code = "\n".join(block)
            if first and _parses(code):
                yield CodeBlock(code, first)
            fence = ""
        elif fence:
            block.append(line)


def _blocks(file: str, text: str) -> Iterator[PythonText]:
    """Each program that Python blocks make, with the numbers that its lines have in the file."""
    blocks: list[CodeBlock] = []
    for block in python_blocks(text):
        if len(blocks) >= MOST_BLOCKS:
            raise Unreadable(f"more than {MOST_BLOCKS:,} blocks of Python")
        blocks.append(block)
    for numbers in joined([parsed(block.code) for block in blocks]):
        parts = [blocks[number] for number in numbers]
        code = "\n".join(block.code for block in parts)
        counts = [(block, block.code.count("\n") + 1) for block in parts]
        places = tuple((file, block.before + line) for block, count in counts for line in range(1, count + 1))
        yield PythonText(code, parsed(code), places)
