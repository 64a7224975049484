"""The report for machines: `ddpdoctor.report/1`, whose JSON Schema is docs/report.schema.json."""

from __future__ import annotations

import json
from typing import Any

from typing_extensions import assert_never

from ddpdoctor.model import Crashed, Finding, Outcome, Ran, Report, Skipped

SCHEMA = "ddpdoctor.report/1"


def render(report: Report) -> str:
    """One JSON document, ending in a newline."""
    return json.dumps(document(report), indent=2) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as JSON-able dicts and lists; `findings` root cause first, `outcomes` one entry a rule."""
    return {
        "schema": SCHEMA,
        "findings": [_finding(finding) for finding in report.findings],
        "outcomes": [_outcome(outcome) for outcome in report.outcomes],
        "notes": list(report.notes),
        "undecided": list(report.undecided),
        "measured": _plain(report.measured),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.rule.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "url": finding.rule.url,
        "ranks": list(finding.ranks),
        "hosts": list(finding.hosts),
        "where": [
            {
                "rank": where.rank,
                "file": where.file,
                "line": where.line,
                "function": where.function,
                **({"note": where.note} if where.note else {}),
                **({"column": where.column} if where.column is not None else {}),
            }
            for where in finding.where
        ],
        "details": list(finding.details),
        "measured": _plain(finding.measured),
        "explained_by": finding.explained_by,
        **({"leads_to": list(finding.rule.leads_to)} if finding.rule.leads_to else {}),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    rule = {"code": outcome.rule.code, "name": outcome.rule.name}
    match outcome:
        case Ran(findings=findings):
            return {**rule, "outcome": "ran", "findings": len(findings)}
        case Skipped(reason=reason):
            return {**rule, "outcome": "skipped", "reason": reason}
        case Crashed(error=error):
            return {**rule, "outcome": "crashed", "error": error}
        case _:
            assert_never(outcome)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON-able value
    """`value` with string keys, and with None for numbers that JSON does not know (NaN, infinity)."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value
