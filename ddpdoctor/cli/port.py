"""`ddpdoctor port [PORT]`: is it free, who holds it, and which other one is free."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.options import ReportOptions, reports

CODES = ("DDP202", "DDP219")

PortArgument = Annotated[
    Optional[int],  # noqa: UP045 - a default of None on Python 3.10
    typer.Argument(metavar="PORT", min=1, max=65535, help="The port. [default: MASTER_PORT, else 29500]"),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("port", short_help="Show who uses a port, and which one is free.")(port)


@reports
def port(
    number: PortArgument = None,
    *,
    options: ReportOptions,
) -> None:
    """Say whether a port of this host is free, who holds it since when, and which other port is free."""
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.launch.rendezvous import master_port_of
    from ddpdoctor.workflows.port import examine

    conclude(examine(number or master_port_of(os.environ)), replace(options, select=options.select or CODES))
