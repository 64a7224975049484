"""The report as editors and compilers write it: `file:line:column: CODE name: message`, in the order of the files."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ddpdoctor.model import Finding, Report
from ddpdoctor.render import by_place, headline, quoted_report, summary
from ddpdoctor.render.screen import Screen
from ddpdoctor.render.text import STYLE

_INDENT = Text("  ")


def render(report: Report, *, screen: Screen | None = None) -> str:
    """One line per finding with its place first, then its reasons and what to do, indented; then notes and a summary.

    On a `screen` with a width, lines break at the ends of words; without one, as editors read it, they do not.
    """
    screen = screen or Screen()
    return screen.shown(line for label, body in _lines(quoted_report(report)) for line in screen.hanging(label, body))


def _lines(report: Report) -> Iterator[tuple[Text, Text]]:
    """Each line as what stands before it and what may be broken."""
    for finding in sorted(report.findings, key=by_place):
        yield from _finding(finding)
    for reason in report.undecided:
        yield Text("undecided: ", style="bold magenta"), Text(reason)
    for note in report.notes:
        yield Text("note: ", style="bold"), Text(note)
    for crash in report.crashed:
        yield Text(f"{crash.rule.code} {crash.rule.name} crashed: ", style="bold red"), Text(crash.error)
    yield Text(), Text(summary(report), style="bold")


def _finding(finding: Finding) -> Iterator[tuple[Text, Text]]:
    code, _, rest = headline(finding).partition(" ")
    first = finding.where[0] if finding.where else None
    column = f":{first.column}" if first is not None and first.column is not None else ""
    place = f"{first.file}:{first.line}{column}: " if first is not None else ""
    message, *others = rest.split("\n")
    yield Text.assemble((place, "bold"), (code, STYLE[finding.severity]), " "), Text(message)
    for line in others:
        yield _INDENT, Text(line)
    for other in finding.where[1:]:
        note = f"  {other.note}" if other.note else ""
        yield _INDENT, Text(f"see {other.file}:{other.line}{note}")
    for detail in finding.details:
        yield _INDENT, Text(detail)
    if finding.rule.leads_to:
        yield _INDENT, Text(f"at run time: {' or '.join(finding.rule.leads_to)}")
    if finding.explained_by is not None:
        yield _INDENT, Text(f"explained by {finding.explained_by}", style="dim")
    else:
        yield Text.assemble("  ", ("what to do: ", "bold green")), Text(finding.remedy)
