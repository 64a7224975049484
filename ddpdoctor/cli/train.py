"""`ddpdoctor train`: the known-good job, or the same job made sick."""

from __future__ import annotations

from typing import Annotated, Optional

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("train")(train)


def train(
    nproc: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Option("--nproc", "-n", help="Start this many ranks here; leave it out under a launcher."),
    ] = None,
    inject: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--inject", metavar="CODE", help="Run the job with this fault instead, such as DDP305."),
    ] = None,
    culprit: Annotated[int, typer.Option("--culprit", metavar="RANK", help="The rank that gets the fault.")] = 1,
    fault_options: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[-- FAULT-OPTIONS]", help="Options of the injected fault, such as `-- --at-step 20`."),
    ] = None,
) -> None:
    """Run the known-good DDP job, or the same job with one fault."""
    if inject is not None:
        raise typer.Exit(run_sick(inject, culprit, nproc, fault_options or []))


def run_sick(code: str, culprit: int, nproc: int | None, options: list[str]) -> int:
    """Run the job with one fault, its output and its exit code being ours; ddpdoctor does not judge it."""
    from ddpdoctor.launch.faults import find_fault
    from ddpdoctor.launch.program import end, start_guarded
    from ddpdoctor.launch.ranks import ranks_command

    command, env = ranks_command(find_fault(code), ["--culprit", str(culprit), *options], nproc=nproc)
    job = start_guarded(command, env=env)
    try:
        return job.wait()
    finally:
        end(job)
