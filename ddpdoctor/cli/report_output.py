"""The end of every command that judges: evidence in, report out, exit code."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import typer
from typing_extensions import assert_never

from ddpdoctor import case
from ddpdoctor.cli.options import Format, ReportOptions
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Measure, Report


def conclude(
    evidence: Evidence,
    options: ReportOptions,
    *,
    facts: Sequence[tuple[str, str]] = (),
    measured: Mapping[str, Measure] | None = None,
    afterwards: Iterable[Callable[[], object]] = (),
) -> NoReturn:
    """Judge `evidence`, write what the options ask for, and leave with the exit code of the verdict.

    `facts` (name, value) are for people, in markdown; `measured` is for machines, in JSON. `afterwards` write the command's
    own files, once the verdict is out: a disk that is full must not cost it.
    """
    report = replace(judge(evidence, options), measured=measured or {})
    code = show(report, options, facts=facts)
    keep(evidence, options)
    for write in afterwards:
        write()
    raise typer.Exit(code)


def judge(evidence: Evidence, options: ReportOptions) -> Report:
    """The report over `evidence`, redacted."""
    return diagnose(case.redact(evidence), select=options.select, ignore=options.ignore)


def show(report: Report, options: ReportOptions, *, facts: Sequence[tuple[str, str]] = ()) -> int:
    """Write the report to stdout and to `--output`; returns the exit code.

    The terminal comes first: a disk that is full must not cost the verdict.
    """
    if options.output is not None:
        typer.echo(text(report, options), nl=False)
        case.write_atomically(options.output, formatted(report, options, facts=facts))
    elif options.format is Format.TEXT:
        typer.echo(text(report, options), nl=False)
    else:
        typer.echo(formatted(report, options, facts=facts), nl=False)
    return report.exit_code(options.fail_on)


def keep(evidence: Evidence, options: ReportOptions) -> None:
    """Save the evidence, redacted, where `--case` asks for it; the verdict is out by then, whatever becomes of the file."""
    if options.case is not None:
        case.save(evidence, options.case)


def formatted(report: Report, options: ReportOptions, *, facts: Sequence[tuple[str, str]] = ()) -> str:
    """The report in the format asked for, without colours."""
    match options.format:
        case Format.TEXT:
            from ddpdoctor.render import text as plain

            return plain.render(report, verbose=options.verbose)
        case Format.JSON:
            from ddpdoctor.render import json

            return json.render(report)
        case Format.JUNIT:
            from ddpdoctor.render import junit

            return junit.render(report, suite=options.title, fail_on=options.fail_on)
        case Format.GITHUB:
            from ddpdoctor.render import github

            return github.render(report)
        case Format.MARKDOWN:
            from ddpdoctor.render import markdown

            return markdown.render(report, title=options.title, facts=facts)
        case _:
            assert_never(options.format)


def text(report: Report, options: ReportOptions, *, subject: str = "") -> str:
    """The report for this terminal; `subject` is what was examined, for the line below the verdict's title."""
    from ddpdoctor.cli.terminal import heading, screen
    from ddpdoctor.render import text as plain

    above = heading(options.title.removeprefix("ddpdoctor "), subject)
    return plain.render(report, screen=screen(), verbose=options.verbose, heading=above)


def terminal() -> tuple[bool, int]:
    """Whether stdout takes colours, and its width."""
    from ddpdoctor.cli.terminal import colored

    return colored(sys.stdout), shutil.get_terminal_size().columns
