"""The report as markdown: for a bug report, or for `GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddpdoctor.model import Finding, Report
from ddpdoctor.quoting import quoted
from ddpdoctor.render import places, quoted_report, skips_in_one_line, summary

_CODE_SPAN = re.compile(r"(`[^`]+`)")


def render(report: Report, *, title: str = "ddpdoctor", facts: Sequence[tuple[str, str]] = ()) -> str:
    """A heading, the findings, `facts` (name, value) as a table, and what was skipped in one line."""
    report = quoted_report(report)
    lines = [f"### {title}: {summary(report)}", ""]
    for finding in report.findings:
        lines += [*_finding(finding), ""]
    lines += [f"- undecided: {_inline(reason)}" for reason in report.undecided]
    lines += [f"- note: {_inline(note)}" for note in report.notes]
    lines += [f"- {crash.rule.code} crashed: {_inline(crash.error)}" for crash in report.crashed]
    if facts:
        lines += ["", "| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in facts)]
    if skips := skips_in_one_line(report):
        lines += ["", _inline(skips)]
    return "\n".join(lines).rstrip() + "\n"


def _finding(finding: Finding) -> list[str]:
    lines = [f"- **{finding.code} {finding.rule.name}** ({finding.severity.value}): {_inline(finding.message)}"]
    lines += [f"  - {place.who} `{_code(place.spot)}` {_inline(place.note)}".rstrip() for place in places(finding)]
    lines += [f"  - {_inline(detail)}" for detail in finding.details]
    if finding.explained_by:
        return [*lines, f"  - explained by {finding.explained_by}"]
    return [*lines, f"  - what to do: {_inline(finding.remedy)}"]


def _inline(text: str) -> str:
    """`text` without what markdown would take for a tag, a link or a picture.

    Between single backticks markdown takes everything as it stands, an escape too; where they are doubled or escaped, which of
    them are a pair is not as plain, and no text is taken for code.
    """
    line = quoted(text.replace("\n", " "))
    parts = [line] if "``" in line or "\\`" in line else _CODE_SPAN.split(line)
    return "".join(part if place % 2 else _plain(part) for place, part in enumerate(parts))


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[")


def _code(text: str) -> str:
    return text.replace("`", "'")


def _cell(text: str) -> str:
    return _inline(text).replace("|", "\\|")
