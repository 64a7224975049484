"""`ddpdoctor hang [PID...]`: a job is stuck right now, and nothing was prepared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ddpdoctor.cli.options import ReportOptions, reports

if TYPE_CHECKING:
    from ddpdoctor.collect.jobs import Found, Job


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("hang", short_help="Say which rank keeps a running job waiting, and where.")(hang)


@reports
def hang(
    pids: Annotated[
        Optional[list[int]],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Argument(metavar="[PID...]", help="A rank, or the launcher; needed where several jobs run on this host."),
    ] = None,
    *,
    options: ReportOptions,
) -> None:
    """Say what every rank of a running job is doing, and which one keeps the others waiting. The job goes on."""
    from ddpdoctor.cli.conclude import conclude, judge
    from ddpdoctor.collect.hanging import look, unexplained
    from ddpdoctor.collect.jobs import find_jobs

    evidence = look(_chosen(find_jobs(), pids or []))
    if not (options.select or judge(evidence, options).explained):
        evidence = replace(evidence, undecided=(*evidence.undecided, *unexplained(evidence)))
    conclude(evidence, options)


def _chosen(found: Found, pids: list[int]) -> Job:
    from ddpdoctor.collect.jobs import jobs_of
    from ddpdoctor.collect.processes import is_alive
    from ddpdoctor.collect.stacks import why_forbidden
    from ddpdoctor.errors import UndecidedError, UsageError

    for pid in pids:
        if not is_alive(pid):
            raise UsageError(
                f"there is no process {pid} on this host", hint="`ddpdoctor hang` finds the ranks by itself"
            )
        if pid in found.forbidden:
            raise UndecidedError(f"nothing can be learnt of this job: {why_forbidden(pid)}")
    chosen = {job.name: job for pid in pids for job in jobs_of(found.jobs, pid)}
    if pids and not chosen:
        raise UsageError(
            f"process {pids[0]} is neither a rank of a job nor its launcher: no RANK or WORLD_SIZE in its environment",
            hint="`ddpdoctor hang` without a number finds the ranks by itself",
        )
    jobs = [*chosen.values()] if pids else [*found.jobs]
    if len(jobs) > 1:
        listed = "".join(f"\n  `ddpdoctor hang {job.pids[0]}`: {job.told}" for job in jobs)
        raise UsageError(f"{len(jobs)} jobs run on this host: name one of them{listed}")
    if not jobs:
        if found.forbidden:
            first, *others = found.forbidden
            more = f" (and {len(others)} more processes of Python)" if others else ""
            raise UndecidedError(
                f"no rank of a PyTorch job runs on this host that you may look at: {why_forbidden(first)}{more}"
            )
        raise UndecidedError(
            "no rank of a PyTorch job runs on this host",
            hint="run it on the host of the job, as the user of the job or as root, and inside its container if there is one",
        )
    return jobs[0]
