"""`ddpdoctor lint`: the usual mistakes in launch scripts."""

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
    app.command("lint")(lint)


def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Launch scripts, or directories with some.")],
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Name the usual mistakes in launch scripts, with the line."""
    options = report_options(
        format_=format_, output=output, select=select, ignore=ignore, fail_on=fail_on, case=case, verbose=verbose,
        title="ddpdoctor lint",
    )  # fmt: skip
    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.scripts import read_scripts
    from ddpdoctor.evidence import Evidence

    conclude(Evidence(job=(read_scripts(paths),), launched=False), options)
