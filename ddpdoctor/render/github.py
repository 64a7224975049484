"""The report as GitHub Actions workflow commands: each finding an annotation, at the user's own file and line."""

from __future__ import annotations

from ddpdoctor.model import Finding, Report, Severity, Where
from ddpdoctor.render import places, quoted_report, summary

_COMMAND = {Severity.FAIL: "error", Severity.WARN: "warning", Severity.INFO: "notice"}


def render(report: Report) -> str:
    """One annotation a finding, an error for what is undecided or crashed, then the summary as plain text."""
    report = quoted_report(report)
    lines = [_annotation(finding) for finding in report.findings]
    lines += [f"::error title=ddpdoctor undecided::{_data(reason)}" for reason in report.undecided]
    lines += [
        f"::error title={_property(f'{crash.rule.code} crashed')}::{_data(crash.error)}" for crash in report.crashed
    ]
    return "\n".join([*lines, f"ddpdoctor: {summary(report)}"]) + "\n"


def _annotation(finding: Finding) -> str:
    properties = [f"title={_property(f'{finding.code} {finding.rule.name}')}"]
    if finding.where:
        first = finding.where[0]
        properties = [f"file={_property(first.file)}", f"line={first.line}", *_column(first), *properties]
    body = [finding.message, *(f"{place.who} {place.spot} {place.note}".strip() for place in places(finding))]
    body += [*finding.details, f"what to do: {finding.remedy}"]
    return f"::{_COMMAND[finding.severity]} {','.join(properties)}::{_data(chr(10).join(body))}"


def _column(where: Where) -> list[str]:
    return [f"col={where.column}"] if where.column is not None else []


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
