"""`ddpdoctor env`: what is wrong with this host, or with the hosts of this launch, for DDP."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.shared_exit_code import ends_alike


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("env", short_help="Check this host, or every host of a launch.")(env)


@reports
@ends_alike
def env(
    deadline: Annotated[
        float,
        typer.Option(min=1, help="Seconds to wait for the other ranks of a launch before they are reported missing."),
    ] = 60.0,
    *,
    options: ReportOptions,
) -> None:
    """Judge this host; under torchrun, srun or mpirun every host of the launch, and what differs between ranks."""
    from concurrent.futures import ThreadPoolExecutor

    from ddpdoctor.case import redact
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.engine import all_checks
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.render.facts import facts_of, short_facts_of
    from ddpdoctor.workflows.env import collect

    with ThreadPoolExecutor(max_workers=1) as beside:
        beside.submit(all_checks)  # the catalogue is imported while torch is
        evidence = collect(HostAccess(), deadline_seconds=deadline)
    if evidence is None:
        raise typer.Exit
    facts = facts_of(redact(evidence))
    if options.format is Format.TEXT:
        shown = facts if options.verbose else short_facts_of(facts)
        widest = max(len(name) for name, _ in shown)
        for name, value in shown:
            typer.echo(f"{name:<{widest}}  {value}")
        typer.echo()
    conclude(evidence, options, facts=facts, measured={"facts": dict(facts)})
