"""`ddpdoctor lint`: the usual mistakes in launch scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpdoctor.cli.options import ReportOptions, reports


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("lint")(lint)


@reports
def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Launch scripts, or directories with some.")],
    *,
    options: ReportOptions,
) -> None:
    """Name the usual mistakes in launch scripts, with the line."""
    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.scripts import read_scripts
    from ddpdoctor.evidence import Evidence

    conclude(Evidence(job=(read_scripts(paths),), launched=False), options)
