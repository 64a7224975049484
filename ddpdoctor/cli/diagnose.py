"""`ddpdoctor diagnose PATH...`: why a job hung or died, from what it left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpdoctor.cli.options import (
    CaseOption,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    OutputOption,
    SelectOption,
    VerboseOption,
    report_options,
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("diagnose", short_help="Say why a job died, from the dumps, logs and cases it left.")(diagnose)


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Recorder dumps, job logs, saved cases: files or directories."),
    ],
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Say why a job hung or died, from the flight-recorder dumps, logs and cases that it left.

    Dumps are read without running anything that is in them. Files that cannot be read are named and left out.
    """
    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.leftovers import gather

    options = report_options(
        format_=format_,
        output=output,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        case=case,
        verbose=verbose,
        title="ddpdoctor diagnose",
    )
    conclude(gather(paths), options)
