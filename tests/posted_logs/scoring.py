"""How `diagnose` reads a collection of logs whose truth is known: exact, right in the code, wrong, or silent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ddpdoctor.engine import diagnose
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.model import Finding, Severity
from ddpdoctor.redaction import redact
from ddpdoctor.workflows.diagnose import gather

COLLECTION = Path(__file__).parent / "collection"
SUFFIXES = (".txt", ".log")
UNDECIDED = 3

Grade = Literal["exact", "code", "wrong", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What one log shows."""

    name: str
    """The log's path below the collection, without its suffix."""
    group: str
    """The class of failure that it belongs to."""
    accept: tuple[str, ...]
    """The codes of findings that are right, the best one first."""
    ranks: tuple[int, ...] | None
    """The culprits; None where the log shows none."""
    must_contain: tuple[str, ...]
    """Regular expressions that the headline or its places must match."""
    undecidable: bool
    """Whether the log does not show the cause: exit code 3, and no rank named."""
    healthy: bool
    """Whether the log shows a job at work or at a clean end: exit code 0, and no finding."""
    no_rank: bool
    """Whether to name a rank is wrong."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Truth:
        """The truth of one entry of a truth.json."""
        ranks = entry.get("ranks")
        return cls(
            name=name,
            group=entry.get("class") or name.partition("_")[0],
            accept=tuple(entry["accept"]),
            ranks=tuple(ranks) if ranks is not None else None,
            must_contain=tuple(entry["must_contain"]),
            undecidable=entry["undecidable"],
            healthy=entry.get("healthy", False),
            no_rank=entry.get("no_rank", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one log was read."""

    truth: Truth
    """What it shows."""
    grade: Grade
    """Exact; right in the code alone; wrong; or nothing said where something is to be said."""
    why: str
    """What is not right, or empty."""
    first_choice: bool
    """Whether the headline is the best code."""
    exit_code: int
    """The exit code of the verdict."""


def truths(folder: Path) -> list[Truth]:
    """The truths of all logs in `folder`, by its truth.json."""
    return [Truth.of(name, entry) for name, entry in json.loads((folder / "truth.json").read_text()).items()]


def score(truth: Truth, folder: Path) -> Score:
    """Read one log of `folder` and compare."""
    headlines, code = _read(
        next(folder / f"{truth.name}{end}" for end in SUFFIXES if (folder / f"{truth.name}{end}").exists())
    )
    grade, why = _grade(truth, headlines, code)
    best = bool(headlines) and bool(truth.accept) and headlines[0].code == truth.accept[0]
    return Score(truth=truth, grade=grade, why=why, first_choice=best, exit_code=code)


def _read(log: Path) -> tuple[Sequence[Finding], int]:
    try:
        report = diagnose(redact(gather([log])))
    except DdpdoctorError as error:
        return (), error.exit_code
    headlines = [finding for finding in report.findings if finding.severity is not Severity.INFO]
    return headlines, report.exit_code(Severity.FAIL)


def _grade(truth: Truth, headlines: Sequence[Finding], code: int) -> tuple[Grade, str]:
    if truth.healthy:
        if headlines:
            return "wrong", f"healthy, and {headlines[0].code}"
        return ("exact", "") if code == 0 else ("silent", f"healthy, and exit code {code}")
    if not headlines:
        right = truth.undecidable and code == UNDECIDED
        return ("exact", "") if right else ("silent", f"exit code {code}")
    first = headlines[0]
    if first.code not in truth.accept:
        return "wrong", f"{first.code}: {first.message}"
    if first.ranks and (truth.no_rank or truth.undecidable) and first.ranks != truth.ranks:
        return "wrong", f"names ranks {first.ranks}"
    if truth.undecidable:
        return ("exact", "") if code == UNDECIDED else ("code", f"undecidable, and exit code {code}")
    if truth.ranks is not None and first.ranks != truth.ranks:
        return ("wrong" if first.ranks else "code"), f"names ranks {first.ranks}, not {truth.ranks}"
    lacking = [*_lacking(truth, first)]
    if lacking or code != 1:
        return "code", f"lacks {lacking}: {first.message}" if lacking else f"exit code {code}"
    return "exact", ""


def _lacking(truth: Truth, finding: Finding) -> Iterator[str]:
    text = " ".join([finding.message, *(f"{where.file}:{where.line}" for where in finding.where)])
    return (pattern for pattern in truth.must_contain if not re.search(pattern, text))
