"""`ddpdoctor env`: what is wrong with this host, or with the hosts of this launch, for DDP."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Annotated

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.shared_exit_code import ends_alike
from ddpdoctor.model import group_ranks

if TYPE_CHECKING:
    from ddpdoctor.cli.progress import Progress
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.workflows.env import Waiting

QUIET_SECONDS = 3.0  # the ranks of a healthy launch are together by then


def register(app: typer.App) -> None:
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
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.engine import all_checks
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.render.facts import facts_of, issue_facts_of, short_facts_of
    from ddpdoctor.workflows.env import collect

    with ThreadPoolExecutor(max_workers=1) as beside:
        beside.submit(all_checks)  # the catalogue is imported while torch is
        access = HostAccess()
        with progress(_here(access)) as told:
            waits = _Waits(told, deadline)
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


class _Waits:
    """Says that a rank waits, for which ranks and for how long: live on a terminal, once elsewhere, there by rank 0 alone."""

    def __init__(self, told: Progress, deadline: float) -> None:
        self._told = told
        self._deadline = deadline
        self._said = False

    def note(self, waiting: Waiting) -> None:
        """One second of waiting has passed."""
        launch, meeting = waiting.launch, waiting.meeting
        others = "the other ranks" if waiting.absent is None else group_ranks(waiting.absent)
        words = (
            f"rank {launch.rank} of {launch.world_size} on {socket.gethostname()} waits for {others} "
            f"at {meeting.host}:{meeting.port}"
        )
        self._told.update(f"{words} ({waiting.seconds:.0f} of at most {self._deadline:.0f} s)")
        if waiting.seconds < QUIET_SECONDS or self._said or sys.stderr.isatty():
            return
        self._said = True
        if launch.rank == 0 or launch.by_hand:
            output.say(f"{words} for at most {self._deadline:.0f} s")
