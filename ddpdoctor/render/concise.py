"""The report for editors and grep: one line per finding, `file:line:column: CODE message`."""

from __future__ import annotations

from ddpdoctor.model import Finding, Report
from ddpdoctor.render import by_place, quoted_report


def render(report: Report) -> str:
    """One line per finding in the order of the files; then, as `undecided: ...`, why there is no verdict."""
    report = quoted_report(report)
    lines = [f"{_place(finding)}{finding.code} {finding.message}" for finding in sorted(report.findings, key=by_place)]
    lines += [f"undecided: {reason}" for reason in report.undecided]
    lines += [f"{crash.rule.code} crashed: {crash.error}" for crash in report.crashed]
    return "".join(f"{' '.join(line.splitlines())}\n" for line in lines)


def _place(finding: Finding) -> str:
    if not finding.where:
        return ""
    first = finding.where[0]
    return f"{first.file}:{first.line}:{first.column or 1}: "
