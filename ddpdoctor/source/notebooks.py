"""The code cells of a Jupyter notebook, without IPython's magics, and new text for them: all else stays byte for byte."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.whole_numbers import whole_number

SUFFIX = ".ipynb"
_CELL = f"{SUFFIX}:cell "
_MAGIC = re.compile(r"^\s*(?:[%!?]|\w+\?)")
_RUNS_ITS_LINE = re.compile(r"^(\s*)(%(?:time|timeit|prun) +(?:-\w+ +)*)([^-\s].*)$")
_RUNS_ITS_CELL = ("%%time", "%%timeit", "%%capture", "%%prun")
_ASSIGNS = re.compile(r"^([\s\w.,]+=) *[%!]")
_MARK = "  # line of IPython "
_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell of a notebook."""

    number: int
    """Its number among all cells, from 1."""
    source: str
    """Its text, with magics as they are written."""
    start: int
    """Where the JSON value of its `source` begins in the file's text."""
    end: int
    """Where that value ends; equal to `start` in a cell without one."""

    @property
    def lines(self) -> list[str]:
        """Its lines as Python reads them, one for each of its own: a magic that runs nothing of the program is `pass`."""
        return [_without_magic(line) for line in self.source.split("\n")]

    @property
    def is_python(self) -> bool:
        """Whether no magic of the whole cell makes it something else, such as `%%bash`."""
        magic = self.source.lstrip().partition("\n")[0].split(" ")[0]
        return not magic.startswith("%%") or magic in _RUNS_ITS_CELL


def place_in(file: str, cell: int) -> str:
    """How a finding names a cell: `train.ipynb:cell 3`."""
    return f"{file}:cell {cell}"


def file_and_cell(place: str) -> tuple[str, int]:
    """The file and the cell that a finding names; 0 where it names no cell."""
    file, cell, number = place.rpartition(_CELL)
    counted = whole_number(number)
    return (f"{file}{SUFFIX}", counted) if cell and counted is not None else (place, 0)


def encoding_of(data: bytes) -> str:
    """The encoding of JSON."""
    return json.detect_encoding(data)


def code_cells(text: str) -> list[Cell]:
    """The code cells of a notebook, in order.

    Raises:
        ValueError: it is no notebook.
    """
    found = []
    for number, start in enumerate(_cells(text), start=1):
        cell = _members(text, start)
        kind = _decode(text, cell["cell_type"][0])[0] if "cell_type" in cell else ""
        if kind == "code":
            first, end = cell.get("source") or cell.get("input", (start, start))
            found.append(Cell(number, _joined(_decode(text, first)[0]) if end > first else "", first, end))
    return found


def _cells(text: str) -> Iterator[int]:
    """Where each cell begins; notebooks of format 3 and older keep theirs in worksheets."""
    top = _members(text, 0)
    sheets = [_members(text, start) for start, _ in _items(text, top["worksheets"][0])] if "worksheets" in top else []
    holders = [each["cells"][0] for each in (top, *sheets) if "cells" in each]
    if not holders:
        raise ValueError("it has no cells")
    for holder in holders:
        yield from (start for start, _ in _items(text, holder))


def with_sources(text: str, cells: Sequence[Cell], sources: Mapping[int, str]) -> str:
    """The notebook with other text in the cells of these numbers; lines of a cell that stay keep their bytes."""
    for cell in reversed(cells):
        if cell.number in sources and sources[cell.number] != cell.source:
            written = _rewritten(text[cell.start : cell.end], sources[cell.number])
            text = text[: cell.start] + written + text[cell.end :]
    return text


def edited(cells: Sequence[Cell], change: Callable[[str, Mapping[tuple[int, int], int]], str]) -> dict[int, str]:
    """The new text of cells by number; empty where lines that only IPython understands would not stay as they are.

    `change` gets all cells as one module, and the number in it of each (cell, line), and returns the module anew.
    """
    lines: list[str] = []
    numbers: dict[tuple[int, int], int] = {}
    marked: list[Cell | str] = []
    for cell in cells:
        lines.append(f"#{_MARK}{len(marked)}")
        marked.append(cell)
        for at, (own, line) in enumerate(zip(cell.source.split("\n"), cell.lines, strict=True), start=1):
            lines.append(line if line == own else f"{line}{_MARK}{len(marked)}")
            marked += [own] if line != own else []
            numbers[cell.number, at] = len(lines)
    return _cells_in(change("\n".join([*lines, ""]), numbers).removesuffix("\n").split("\n"), marked)


def _cells_in(lines: Sequence[str], marked: Sequence[Cell | str]) -> dict[int, str]:
    """The text of each cell in a module of `edited`; lines before the first cell belong to it."""
    found: dict[int, list[str]] = {}
    into: list[str] = []
    seen = 0
    for line in lines:
        text, mark, number = line.rpartition(_MARK)
        counted = whole_number(number)
        if not mark or counted is None:
            into.append(line)
            continue
        if counted != seen or seen == len(marked):
            return {}
        match marked[seen]:
            case Cell() as cell:
                into = found[cell.number] = into if not found else []
            case own if (written := _with_magic(own, text)) is not None:
                into.append(written)
            case _:
                return {}
        seen += 1
    return {number: "\n".join(text) for number, text in found.items()} if seen == len(marked) else {}


def _without_magic(line: str) -> str:
    if runs := _RUNS_ITS_LINE.match(line):
        return runs[1] + runs[3]
    if assigned := _ASSIGNS.match(line):
        return f"{assigned[1]} None"
    if not _MAGIC.match(line):
        return line
    return f"{line[: len(line) - len(line.lstrip())]}pass"


def _with_magic(own: str, changed: str) -> str | None:
    """The line of a notebook whose Python has become `changed`; None where it has no Python that can change."""
    if changed == _without_magic(own):
        return own
    runs = _RUNS_ITS_LINE.match(own)
    return f"{runs[1]}{runs[2]}{changed[len(runs[1]) :]}" if runs and changed.startswith(runs[1]) else None


def _rewritten(old: str, source: str) -> str:
    """A cell's `source` in JSON, as a string or as a list of lines, as it was."""
    escaped = "\\u" in old
    if not old.startswith("["):
        return json.dumps(source, ensure_ascii=escaped)
    spans = list(_items(old, 0))
    if not spans:
        return old
    before = [_decode(old, start)[0] for start, _ in spans]
    after = re.findall(r"[^\n]*\n|[^\n]+", source)
    between = old[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{old[1 : spans[0][0]]}"
    written: list[str] = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            written += [old[slice(*span)] for span in spans[first:last]]
        else:
            written += [json.dumps(line, ensure_ascii=escaped) for line in after[start:end]]
    return old[: spans[0][0]] + between.join(written) + old[spans[-1][1] :]


def _joined(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _skip(text: str, at: int) -> int:
    """The index behind white space."""
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _expect(text: str, at: int, wanted: str) -> int:
    at = _skip(text, at)
    if not text.startswith(wanted, at):
        raise ValueError(f"no {wanted} at {at}")
    return at + len(wanted)


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """The values of the object that begins at an index, each by its span."""
    at = _skip(text, _expect(text, at, "{"))
    found: dict[str, tuple[int, int]] = {}
    while not text.startswith("}", at):
        name, at = _decode(text, at)
        start = _skip(text, _expect(text, at, ":"))
        _, at = _decode(text, start)
        found[str(name)] = (start, at)
        at = _next(text, at, "}")
    return found


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The spans of the elements of the array that begins at an index."""
    at = _skip(text, _expect(text, at, "["))
    while not text.startswith("]", at):
        _, end = _decode(text, at)
        yield at, end
        at = _next(text, end, "]")


def _next(text: str, at: int, end: str) -> int:
    """Where the next element begins, or the end of them stands."""
    at = _skip(text, at)
    return at if text.startswith(end, at) else _skip(text, _expect(text, at, ","))
