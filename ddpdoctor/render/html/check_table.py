"""All checks: what each one looked at, and what it said."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_never

from ddpdoctor.catalogue import all_checks
from ddpdoctor.evidence import Evidence, kinds, noun_of
from ddpdoctor.model import Crashed, Ran, Report, Skipped
from ddpdoctor.render import skips_by_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One check that looked at the evidence, or crashed."""

    code: str
    """The rule's code, such as `DDP301`."""
    name: str
    """The rule's name, such as `collective-mismatch`."""
    summary: str
    """What it looks for."""
    outcome: str
    """What came of it, in a word."""
    level: str
    """The severity that colours it."""
    saw: str
    """What it looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRow:
    """Checks that were skipped for one reason."""

    codes: tuple[str, ...]
    """The codes of their rules."""
    reason: str
    """Why they were skipped, as a sentence without a full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSection:
    """The checks that ran, and those that were skipped."""

    rows: tuple[CheckRow, ...]
    """The checks that ran or crashed, by code; those that found nothing come last."""
    skipped: tuple[SkippedRow, ...]
    """One per reason."""
    not_tried: int
    """How many checks were not this command's business."""


def check_section(report: Report, evidence: Evidence) -> CheckSection:
    """Every check of the report."""
    inputs = {check.rule.code: check.inputs for check in all_checks()}
    counts = _counts(evidence)
    rows = []
    for outcome in report.outcomes:
        rule = outcome.rule
        match outcome:
            case Ran(findings=()):
                word, level = "found nothing", "ok"
            case Ran(findings=found):
                word, level = (
                    f"{len(found)} finding{'s' if len(found) > 1 else ''}",
                    max(found, key=lambda finding: finding.severity.rank).severity.value,
                )
            case Crashed():
                word, level = "crashed", "fail"
            case Skipped():
                continue
            case _:
                assert_never(outcome)
        saw = ", ".join(dict.fromkeys(counts[name] for name in _kinds(inputs.get(rule.code, ())) if name in counts))
        rows.append(CheckRow(code=rule.code, name=rule.name, summary=rule.summary, outcome=word, level=level, saw=saw))
    return CheckSection(
        rows=tuple(sorted(rows, key=lambda row: (row.level == "ok", row.code))),
        skipped=tuple(SkippedRow(codes=codes, reason=reason) for reason, codes in skips_by_reason(report)),
        not_tried=sum(not outcome.tried for outcome in report.skipped),
    )


def _counts(evidence: Evidence) -> dict[str, str]:
    """`stacks of 8 ranks` by the class name of each kind of evidence that is there."""
    by_rank: dict[str, int] = {}
    for facts in evidence.ranks:
        for fact in facts.facts:
            by_rank[type(fact).__name__] = by_rank.get(type(fact).__name__, 0) + 1
    found = {type(fact).__name__: noun_of(type(fact).__name__) for fact in evidence.job}
    for name, number in by_rank.items():
        found[name] = f"{noun_of(name)} of {number} rank{'s' if number > 1 else ''}"
    return found


def _kinds(inputs: tuple[Any, ...]) -> list[str]:
    """The class names of the kinds of evidence among the declared inputs of a check, and of what these are derived from."""
    from ddpdoctor.catalogue import inputs_of

    known = kinds()
    pending, seen = list(inputs), set[str]()
    names: list[str] = []
    while pending:
        declared = pending.pop(0)
        for part in typing.get_args(declared) or (declared,):
            name = getattr(part, "__name__", "")
            if name in known:
                names.append(name)
            elif isinstance(part, type) and name not in seen:
                seen.add(name)
                pending += inputs_of(part)
            elif typing.get_args(part):
                pending.append(part)
    return names
