"""The report as a person reads it at a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.render import headline, places, printable, skips_by_reason, summary

_STYLE = {Severity.FAIL: "bold red", Severity.WARN: "bold yellow", Severity.INFO: "bold cyan"}
SHOWN_SKIP_REASONS = 6


def render(report: Report, *, color: bool = False, width: int = 100, verbose: bool = False) -> str:
    """The findings, root cause first, each with where and what to do; then notes, what was skipped, and a summary."""
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=color, color_system="standard" if color else None, width=width, highlight=False,
        emoji=False, soft_wrap=True,
    )  # fmt: skip
    for line in _lines(report, verbose=verbose):
        line.plain = printable(line.plain)
        console.print(line)
    return file.getvalue()


def _lines(report: Report, *, verbose: bool) -> Iterator[Text]:
    for finding in report.findings:
        yield from _finding(finding)
        yield Text()
    for reason in report.undecided:
        yield Text.assemble(("undecided: ", "bold magenta"), reason)
    for note in report.notes:
        yield Text.assemble(("note: ", "bold"), note)
    for crash in report.crashed:
        yield Text.assemble((f"{crash.rule.code} {crash.rule.name} crashed: ", "bold red"), crash.error)
    yield from _skips(report, verbose=verbose)
    yield Text(summary(report), style="bold")


def _finding(finding: Finding) -> Iterator[Text]:
    folded = finding.explained_by is not None
    indent = "  " if folded else ""
    title = headline(finding)
    code, _, rest = title.partition(" ")
    rest = rest.replace("\n", f"\n{indent}  ")
    yield Text.assemble(indent, (code, _STYLE[finding.severity]), f" {rest}")
    listed = places(finding)
    widest = max((len(place.who) for place in listed), default=0)
    for place in listed:
        note = f"  {place.note}" if place.note else ""
        who = f"{place.who:<{widest}}  " if widest else ""
        yield Text(f"{indent}  {who}{place.spot}{note}")
    for detail in finding.details:
        yield Text(f"{indent}  {detail}")
    if folded:
        yield Text(f"{indent}  explained by {finding.explained_by}", style="dim")
    else:
        yield Text.assemble("  ", ("what to do: ", "bold green"), finding.remedy)


def _skips(report: Report, *, verbose: bool) -> Iterator[Text]:
    reasons = skips_by_reason(report)
    shown = reasons if verbose else reasons[:SHOWN_SKIP_REASONS]
    for reason, codes in shown:
        which = ", ".join(codes) if verbose or len(codes) <= 3 else f"{len(codes)} checks"
        yield Text(f"skipped {which}: {reason}", style="dim")
    if len(shown) < len(reasons):
        rest = sum(len(codes) for _, codes in reasons[len(shown) :])
        yield Text(f"skipped {rest} more checks for {len(reasons) - len(shown)} other reasons (--verbose)", style="dim")
