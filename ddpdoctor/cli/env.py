"""`ddpdoctor env`: what is wrong with this host, or with the hosts of this launch, for DDP."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.shared_exit_code import ends_alike

if TYPE_CHECKING:
    from ddpdoctor.host.host_access import HostAccess


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("env", short_help="Check this host, or every host of a launch.")(env)


@reports
@ends_alike
def env(
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            min=1,
            help="Time to wait for the other ranks of a launch before they are reported missing.",
        ),
    ] = 60.0,
    *,
    options: ReportOptions,
) -> None:
    """Judge this host; under torchrun, srun or mpirun every host of the launch, and what differs between ranks."""
    from concurrent.futures import ThreadPoolExecutor

    from ddpdoctor.catalogue import all_checks
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.redaction import redact
    from ddpdoctor.render.facts import facts_of, issue_facts_of, short_facts_of
    from ddpdoctor.workflows.env import collect

    with ThreadPoolExecutor(max_workers=1) as beside:
        beside.submit(all_checks)  # the catalogue is imported while torch is
        access = HostAccess()
        with progress(_here(access)) as display:
            waits = Waits(display, deadline)
            evidence = collect(access, deadline_seconds=deadline, on_wait=waits.note)
    if evidence is None:
        raise typer.Exit
    facts = facts_of(redact(evidence))
    if options.format is Format.TEXT:
        shown = facts if options.verbose else short_facts_of(facts)
        output.table(shown)
        output.show("\n")
    listed = issue_facts_of(facts) if options.format is Format.MARKDOWN else facts
    conclude(evidence, options, facts=listed, measured={"facts": dict(facts)})


def _here(access: HostAccess) -> str:
    """What this process is, before anything is known of others: `rank 2 of 8 (torchrun) on node1: reading the host`."""
    launch = access.launch
    if launch is None:
        return "reading the host"
    return f"rank {launch.rank} of {launch.world_size} ({launch.launcher}) on {socket.gethostname()}: reading the host"
