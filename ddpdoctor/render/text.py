"""The report as a person reads it at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from ddpdoctor.model import Finding, Report, Severity
from ddpdoctor.quoting import quoted
from ddpdoctor.render import headline, places, quoted_report, skips_by_reason, skips_in_one_line, summary
from ddpdoctor.render.screen import Screen

STYLE = {Severity.FAIL: "bold red", Severity.WARN: "bold yellow", Severity.INFO: "bold cyan"}
WORD = {Severity.FAIL: "FAIL", Severity.WARN: "WARN", Severity.INFO: "INFO"}
UNDECIDED = "bold magenta"
ADVICE = "bold green"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What stands above a verdict, so that it is found between the lines of a job."""

    command: str
    """`ddpdoctor watch`."""
    clock: str
    """Local time of the verdict, `14:02:11`."""
    subject: str = ""
    """What was examined: a command, files, a host; not shown where it says no more than `command`."""
    next_step: str = ""
    """What to run where the report is undecided and the reason does not say what to do (`REASON. Next: ...`)."""


def render(
    report: Report, *, screen: Screen | None = None, verbose: bool = False, heading: Heading | None = None
) -> str:
    """The findings, root cause first, each with where and what to do; then notes, what was skipped, and a summary.

    With `heading` a report that says more than "no findings" stands between two rules.
    """
    screen = screen or Screen()
    return screen.shown(_lines(quoted_report(report), screen, heading, verbose=verbose))


def _lines(report: Report, screen: Screen, heading: Heading | None, *, verbose: bool) -> Iterator[Text]:
    framed = heading is not None and bool(report.findings or report.undecided or report.crashed)
    if heading is not None and framed:
        yield screen.rule(f"{heading.command} · {heading.clock} · {_verdict(report)}", style=_style(report))
        if heading.subject not in {"", heading.command}:
            yield from screen.hanging(Text(), Text(quoted(heading.subject), style="dim"))
        yield Text()
    if not report.explained:
        yield from _undecided(report, screen, heading)
    for finding in report.findings:
        yield from _finding(finding, screen)
        yield Text()
    if report.explained:
        yield from _undecided(report, screen, None)
    for note in report.notes:
        yield from screen.hanging(Text("note: ", style="bold"), Text(note))
    for crash in report.crashed:
        label = Text(f"{crash.rule.code} {crash.rule.name} crashed: ", style="bold red")
        yield from screen.hanging(Text(), Text.assemble(label, crash.error))
    yield from _skips(report, screen, verbose=verbose)
    yield from screen.hanging(Text(), Text(summary(report), style="bold"))
    if framed:
        yield screen.rule(style=_style(report))


def _verdict(report: Report) -> str:
    """`FAIL DDP305`, or `UNDECIDED` where no cause is named."""
    if report.undecided and not report.explained:
        return "UNDECIDED"
    if not report.findings:
        return "CRASHED CHECK"
    first = report.findings[0]
    others = len(report.findings) - 1
    return f"{WORD[first.severity]} {first.code}" + (f" and {others} more" if others else "")


def _style(report: Report) -> str:
    if report.undecided and not report.explained:
        return UNDECIDED
    return STYLE[report.findings[0].severity] if report.findings else STYLE[Severity.FAIL]


def _undecided(report: Report, screen: Screen, heading: Heading | None) -> Iterator[Text]:
    """Why there is no verdict, what is known all the same, and what to run next."""
    if not report.undecided:
        return
    why, *known = report.undecided
    why, _, next_step = why.partition(". Next: ")
    why, _, missing = why.partition(". Missing: ")
    yield from screen.hanging(Text("undecided: ", style=UNDECIDED), Text(why))
    for number, line in enumerate(known):
        yield from screen.hanging(Text("  known:   " if number == 0 else "           "), Text(line))
    if missing:
        yield from screen.hanging(Text("  missing: "), Text(missing))
    next_step = next_step or (heading.next_step if heading is not None else "")
    if next_step:
        yield from screen.hanging(Text("  next:    ", style=ADVICE), Text(next_step))
    if not report.explained:
        yield Text()


def _finding(finding: Finding, screen: Screen) -> Iterator[Text]:
    folded = finding.explained_by is not None
    indent = "  " if folded else ""
    code, _, rest = headline(finding).partition(" ")
    word = WORD[finding.severity]
    style = STYLE[finding.severity]
    yield from screen.hanging(Text(f"{indent}{word} ", style=style), Text.assemble((code, style), f" {rest}"))
    listed = places(finding)
    widest = max((len(place.who) for place in listed), default=0)
    for place in listed:
        note = f"  {place.note}" if place.note else ""
        who = f"{place.who:<{widest}}  " if widest else ""
        yield from screen.hanging(Text(f"{indent}  {who}"), Text(f"{place.spot}{note}"))
    for detail in finding.details:
        yield from screen.hanging(Text(f"{indent}  "), Text(detail))
    if folded:
        yield Text(f"{indent}  explained by {finding.explained_by}", style="dim")
        return
    yield from screen.hanging(Text("  what to do: ", style=ADVICE), Text(finding.remedy))
    yield from screen.hanging(Text("  read on:    ", style=ADVICE), Text(f"ddpdoctor explain {finding.code}"))


def _skips(report: Report, screen: Screen, *, verbose: bool) -> Iterator[Text]:
    if verbose:
        for reason, codes in skips_by_reason(report):
            yield from screen.hanging(Text("skipped ", style="dim"), Text(f"{', '.join(codes)}: {reason}", style="dim"))
        return
    if skips := skips_in_one_line(report):
        yield from screen.hanging(Text(), Text(skips, style="dim"))
