"""The report as editors and compilers write it: `file:line:column: CODE name: message`, in the order of the files."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.render import headline, quoted_report, summary
from ddpdoctor.render.screen import Screen

_STYLE = {Severity.FAIL: "bold red", Severity.WARN: "bold yellow", Severity.INFO: "bold cyan"}


def render(report: Report, *, color: bool = False, width: int = 100) -> str:
    """One line per finding with its place first, then its reasons and what to do, indented; then notes and a summary."""
    return Screen(color=color, width=width).shown(_lines(quoted_report(report)))


def _lines(report: Report) -> Iterator[Text]:
    for finding in sorted(report.findings, key=_place):
        yield from _finding(finding)
    for reason in report.undecided:
        yield Text.assemble(("undecided: ", "bold magenta"), reason)
    for note in report.notes:
        yield Text.assemble(("note: ", "bold"), note)
    for crash in report.crashed:
        yield Text.assemble((f"{crash.rule.code} {crash.rule.name} crashed: ", "bold red"), crash.error)
    yield Text(summary(report), style="bold")


def _place(finding: Finding) -> tuple[str, int, int, str]:
    if not finding.where:
        return "", 0, 0, finding.code
    first = finding.where[0]
    return first.file, first.line, first.column or 0, finding.code


def _finding(finding: Finding) -> Iterator[Text]:
    code, _, rest = headline(finding).partition(" ")
    first = finding.where[0] if finding.where else None
    column = f":{first.column}" if first is not None and first.column is not None else ""
    place = f"{first.file}:{first.line}{column}: " if first is not None else ""
    rest = rest.replace("\n", "\n  ")
    yield Text.assemble((place, "bold"), (code, _STYLE[finding.severity]), f" {rest}")
    for other in finding.where[1:]:
        note = f"  {other.note}" if other.note else ""
        yield Text(f"  see {other.file}:{other.line}{note}")
    for detail in finding.details:
        yield Text(f"  {detail}")
    if finding.rule.leads_to:
        yield Text(f"  at run time: {' or '.join(finding.rule.leads_to)}")
    if finding.explained_by is not None:
        yield Text(f"  explained by {finding.explained_by}", style="dim")
    else:
        yield Text.assemble("  ", ("what to do: ", "bold green"), finding.remedy)
