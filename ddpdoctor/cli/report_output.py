"""The end of every command that judges: evidence in, report out, exit code."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

from typing_extensions import assert_never

from ddpdoctor import __version__, case
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.catalogue import all_rules
from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Measure, Report
from ddpdoctor.redaction import redact
from ddpdoctor.secrets import redact_text

NOT_SELECTED = (
    "no selected check looks at what was read. Next: change --select or --ignore; `ddpdoctor checks` lists all checks"
)
SUMMARY_CHARACTERS = 500_000  # GitHub takes 1 MiB a step, and several commands may share a step


def conclude(
    evidence: Evidence,
    options: ReportOptions,
    *,
    facts: Sequence[tuple[str, str]] = (),
    measured: Mapping[str, Measure] | None = None,
    afterwards: Iterable[Callable[[], object]] = (),
    reads_only: bool = False,
) -> NoReturn:
    """Judge `evidence`, write what the options ask for, and leave with the exit code of the verdict.

    `facts` (name, value) are for people, in markdown; `measured` is for machines, in JSON. `afterwards` write the command's
    own files, once the verdict is out: a disk that is full must not cost it. With `reads_only` the evidence is of an earlier
    command, and this one is no part of it.
    """
    if not reads_only:
        evidence = with_command(evidence, options)
    report = replace(judge(evidence, options), measured=measured or {})
    code = show(report, options, evidence=evidence, facts=facts)
    keep(evidence, options)
    for write in afterwards:
        write()
    raise typer.Exit(code)


def judge(evidence: Evidence, options: ReportOptions) -> Report:
    """The report over `evidence`, redacted, with what `lint` says of the lines that it names."""
    from ddpdoctor.workflows.lint_hints import with_lint

    return with_lint(diagnose(redact(evidence), select=options.select, ignore=options.ignore))


def with_command(evidence: Evidence, options: ReportOptions) -> Evidence:
    """`evidence` with the command that collected it, unless it holds that of the job."""
    if evidence.one(CommandRun) is not None:
        return evidence
    run = CommandRun(
        command=options.invocation.command,
        started_at=options.invocation.started_at,
        ended_at=time.time(),
        versions={"ddpdoctor": __version__, "python": platform.python_version(), **_installed("torch")},
    )
    return replace(evidence, job=(*evidence.job, run))


def _installed(package: str) -> dict[str, str]:
    try:
        return {package: version(package)}
    except PackageNotFoundError:
        return {}


def with_excerpts(evidence: Evidence, report: Report) -> Evidence:
    """`evidence` with the source around the places that `report` names, for a command that read or ran these files here."""
    from ddpdoctor.source.stack_lines.excerpts import excerpts_at

    known = evidence.one(SourceCode) or SourceCode()
    places = {(where.file, where.line) for finding in report.findings for where in finding.where}
    more = excerpts_at(place for place in places if known.at(*place) is None)
    others = (fact for fact in evidence.job if type(fact) is not SourceCode)
    return replace(evidence, job=(*others, known.and_of(more)))


def with_reason(report: Report) -> Report:
    """`report`, which says so where no rule that was selected looks at anything that was read."""
    looked = report.undecided or report.ran or report.crashed or any(skip.tried for skip in report.skipped)
    if looked or len(report.outcomes) == len(all_rules()):
        return report
    return replace(report, undecided=(NOT_SELECTED,))


def show(report: Report, options: ReportOptions, *, evidence: Evidence, facts: Sequence[tuple[str, str]] = ()) -> int:
    """Write the report to stdout and to `--output`; returns the exit code.

    The terminal comes first: a disk that is full must not cost the verdict.
    """
    report = with_reason(report)
    if options.output is not None:
        output.show(text(report, options), colored=True)
        write_atomically(options.output, formatted(report, options, evidence=evidence, facts=facts), private=True)
        say_where(options.output)
    elif options.format is Format.TEXT:
        output.show(text(report, options), colored=True)
    else:
        show_formatted(formatted(report, options, evidence=evidence, facts=facts), options)
        if options.format is Format.CSV and report.findings and "bench" in report.measured:
            output.show(text(report, options), colored=True, err=True)  # the rows are the measurements, not the verdict
    summarise(report, options, facts)
    return report.exit_code(options.fail_on)


def say_where(path: Path) -> None:
    """Say that the report is in this file, where it is one that stays."""
    if path.is_file():
        output.say(f"report written to {path}")


def show_formatted(document: str, options: ReportOptions) -> None:
    """Write a report in the format that the options name to stdout."""
    write = output.ci_commands if options.format is Format.GITHUB else output.show
    write(document)


def summarise(report: Report, options: ReportOptions, facts: Sequence[tuple[str, str]] = ()) -> None:
    """Append the report to the summary page of a GitHub job, where there is one; cut where GitHub would refuse it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from ddpdoctor.render import markdown

    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown.render(report, title=options.title, facts=facts)[:SUMMARY_CHARACTERS])
    except OSError as error:
        output.say(f"GITHUB_STEP_SUMMARY={path} cannot be written: {error.strerror}")


def keep(evidence: Evidence, options: ReportOptions) -> None:
    """Save the evidence, redacted, where `--case` asks for it; the verdict is out by then, whatever becomes of the file."""
    if options.case is not None:
        case.save(evidence, options.case)


def formatted(
    report: Report, options: ReportOptions, *, evidence: Evidence, facts: Sequence[tuple[str, str]] = ()
) -> str:
    """The report in the format asked for, without colours; `evidence` is what was judged."""
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
        case Format.CSV:
            from ddpdoctor.render import csv

            return csv.render(report)
        case Format.HTML:
            from ddpdoctor.render import html

            origin = html.RunOrigin(
                command=redact_text(options.invocation.command), version=__version__, at=time.time()
            )
            return html.render(report, redact(evidence), title=options.title, facts=facts, origin=origin)
        case Format.SARIF:
            from ddpdoctor.render import sarif

            return sarif.render(report)
        case Format.CONCISE:
            from ddpdoctor.render import concise

            return concise.render(report)
        case _:
            assert_never(options.format)


def text(report: Report, options: ReportOptions, *, subject: str = "") -> str:
    """The report for this terminal; `subject` is what was examined, for the line below the verdict's title."""
    from ddpdoctor.cli.terminal import heading, screen
    from ddpdoctor.render import text as plain

    above = heading(options.title.removeprefix("ddpdoctor "), subject or redact_text(options.invocation.command))
    return plain.render(report, screen=screen(), verbose=options.verbose, heading=above)
