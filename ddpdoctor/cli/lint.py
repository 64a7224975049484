"""`ddpdoctor lint`: the usual mistakes in launch scripts and training code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("lint")(lint)


@reports
def lint(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Launch scripts, Python files, notebooks, or directories.")
    ],
    *,
    options: ReportOptions,
) -> None:
    """Name the usual mistakes in scripts and training code."""
    from ddpdoctor import case
    from ddpdoctor.cli.report_output import formatted, keep, terminal, with_command, with_excerpts
    from ddpdoctor.render import lines
    from ddpdoctor.workflows.lint import lint_paths

    linted = lint_paths(paths, select=options.select, ignore=options.ignore)
    plain = options.format is Format.TEXT
    shown = with_command(linted.evidence, options)
    if options.format is Format.HTML:
        shown = with_excerpts(shown, linted.report)
    color, width = terminal()
    if plain or options.output is not None:
        output.show(lines.render(linted.report, color=color, width=width), colored=True)
    else:
        output.show(formatted(linted.report, options, evidence=shown))
    if options.output is not None:
        written = lines.render(linted.report) if plain else formatted(linted.report, options, evidence=shown)
        case.write_atomically(options.output, written, private=True)
    keep(linted.evidence, options)
    raise typer.Exit(linted.report.exit_code(options.fail_on))
