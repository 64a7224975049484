"""Findings of old code that `lint` leaves out: a file that names them by code, file and the text of their line.

Line numbers are not part of it, so that it holds when lines move; an entry goes when its line is changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ddpdoctor.errors import UsageError
from ddpdoctor.model import Finding
from ddpdoctor.regular_file import MOST_SETTINGS_BYTES, read_regular

SCHEMA = "ddpdoctor.lint-baseline/1"
_Key = tuple[str, str, str]


def baseline_of(findings: Iterable[Finding], folder: Path) -> str:
    """The content of a baseline file in `folder` with these findings."""
    counts = Counter(_key(finding, folder) for finding in findings)
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
    left = _entries(file)
    kept, known = [], 0
    for finding in findings:
        key = _key(finding, file.parent)
        if left[key] > 0:
            left[key] -= 1
            known += 1
        else:
            kept.append(finding)
    return kept, known, sum(left.values())


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
            counts[str(entry["code"]), str(entry["file"]), str(entry["text"])] += int(entry.get("count", 1))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # a count may be infinite
        known = False
    if not known:
        raise UsageError(f"{file} is no baseline file of the schema {SCHEMA}", hint=hint)
    return counts


def _key(finding: Finding, folder: Path) -> _Key:
    if not finding.where:
        return finding.code, "", finding.message
    first = finding.where[0]
    path = Path(first.file)
    try:
        text = read_regular(path).decode(errors="replace").splitlines()[first.line - 1].strip()
    except (OSError, IndexError):  # a cell of a notebook
        text = finding.message
    absolute, base = path.absolute(), folder.absolute()
    return finding.code, (absolute.relative_to(base) if absolute.is_relative_to(base) else absolute).as_posix(), text
