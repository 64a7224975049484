"""Findings of old code that `lint` leaves out: a file that names them by code, file and the text of their line.

Line numbers and those of cells are not part of it, so that it holds when lines move; an entry goes when its line is changed.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.model import Finding
from ddpdoctor.regular_file import MOST_SETTINGS_BYTES, read_regular
from ddpdoctor.source import notebooks

SCHEMA = "ddpdoctor.lint-baseline/1"
_Key = tuple[str, str, str]


def baseline_of(findings: Iterable[Finding], folder: Path) -> str:
    """The content of a baseline file in `folder` with these findings."""
    texts = _Texts()
    counts = Counter(_key(finding, folder, texts) for finding in findings)
    entries = [
        {"code": code, "file": file, "text": text, **({"count": count} if count > 1 else {})}
        for (code, file, text), count in sorted(counts.items())
    ]
    return json.dumps({"schema": SCHEMA, "findings": entries}, indent=1, ensure_ascii=False) + "\n"


def without_known(findings: Iterable[Finding], file: Path) -> tuple[list[Finding], int, int]:
    """The findings that a baseline file does not name, how many it names, and how many of its entries are found no more.

    Raises:
        UsageError: it cannot be read, or is no baseline file.
    """
    left, texts = _entries(file), _Texts()
    kept: list[tuple[Finding, _Key]] = []
    known = 0
    for finding in findings:
        key = _key(finding, file.parent, texts)
        entry = next((each for each in (key, _earlier_key(finding, file.parent)) if left[each] > 0), None)
        if entry is None:
            kept.append((finding, key))
        else:
            left[entry] -= 1
            known += 1
    gone = {key for key, count in left.items() if count > 0 and key[1] and not (file.parent / key[1]).exists()}
    new = []
    for finding, (code, _, text) in kept:
        before = next((key for key in sorted(gone) if (key[0], key[2]) == (code, text) and left[key] > 0), None)
        if before is None:
            new.append(finding)
        else:
            left[before] -= 1
    return new, known + len(kept) - len(new), sum(left.values())


def _entries(file: Path) -> Counter[_Key]:
    hint = f"write one with `ddpdoctor lint PATH --write-baseline {file}`"
    try:
        document = json.loads(read_regular(file, most=MOST_SETTINGS_BYTES))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=hint) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is no baseline file: it is no JSON", hint=hint) from None
    counts: Counter[_Key] = Counter()
    try:
        known = document["schema"] == SCHEMA
        for entry in document["findings"]:
            counts[str(entry["code"]), str(entry["file"]), str(entry["text"])] += max(0, int(entry.get("count", 1)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # a count may be infinite
        known = False
    if not known:
        raise UsageError(f"{file} is no baseline file of the schema {SCHEMA}", hint=hint)
    return counts


class _Texts:
    """The lines of files, each file read once."""

    def __init__(self) -> None:
        self.read: dict[str, list[str]] = {}

    def line(self, place: str, number: int) -> str | None:
        """A line of a file, or of a cell that a finding names; None where there is none."""
        if place not in self.read:
            self.read[place] = self._lines(place)
        lines = self.read[place]
        return lines[number - 1].strip() if 0 < number <= len(lines) else None

    @staticmethod
    def _lines(place: str) -> list[str]:
        file, cell = notebooks.file_and_cell(place)
        try:
            data = read_regular(Path(file))
            if not cell:
                return re.split(r"\r\n|\r|\n", data.decode(errors="replace"))
            cells = notebooks.code_cells(data.decode(notebooks.encoding_of(data), "surrogatepass"))
        except (OSError, ValueError, RecursionError):
            return []
        return next((each.source.split("\n") for each in cells if each.number == cell), [])


def _key(finding: Finding, folder: Path, texts: _Texts) -> _Key:
    if not finding.where:
        return finding.code, "", finding.message
    first = finding.where[0]
    text = texts.line(first.file, first.line)
    inner = _inner(notebooks.file_and_cell(first.file)[0], folder)
    return finding.code, inner, text if text is not None else finding.message


def _earlier_key(finding: Finding, folder: Path) -> _Key:
    """The key that a baseline of an earlier version has of a finding in a cell: with the cell, and the message as its text."""
    return finding.code, _inner(finding.where[0].file, folder) if finding.where else "", finding.message


def _inner(file: str, folder: Path) -> str:
    """A file as seen from the folder of the baseline; absolute where it is outside."""
    absolute, base = os.path.abspath(file), os.path.abspath(folder)  # noqa: PTH100 - links stay, `..` goes
    return os.path.relpath(absolute, base) if absolute.startswith(base.rstrip("/") + "/") else absolute
