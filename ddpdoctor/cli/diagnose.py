"""`ddpdoctor diagnose PATH...`: why a job hung or died, from what it left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.options import ReportOptions, reports

SHOWN_PATHS = 3


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("diagnose", short_help="Say why a job died, from its dumps, logs and saved cases.")(diagnose)


@reports
def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Recorder dumps, job logs, saved cases: files or directories."),
    ],
    *,
    options: ReportOptions,
) -> None:
    """Say why a job hung or died, from the flight-recorder dumps, logs and cases that it left.

    Dumps are read without running anything that is in them. Files that cannot be read are named and left out.
    """
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.workflows.diagnose import gather

    with progress(
        "reading " + ", ".join(map(str, paths[:SHOWN_PATHS])) + (", ..." if len(paths) > SHOWN_PATHS else "")
    ):
        evidence = gather(paths)
    conclude(evidence, options, reads_only=True)
