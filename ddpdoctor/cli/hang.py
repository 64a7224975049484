"""`ddpdoctor hang [PID...]`: a job is stuck right now, and nothing was prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.options import ReportOptions, reports

if TYPE_CHECKING:
    from ddpdoctor.errors import UndecidedError
    from ddpdoctor.host.running_jobs import FoundProcesses, RunningJob


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("hang", short_help="Name the rank that blocks a running job, and its line.")(hang)


@reports
def hang(
    pids: Annotated[
        Optional[list[int]],  # noqa: UP045 - a default of None on Python 3.10
        typer.Argument(
            metavar="[PID...]", help="Process of a rank or of the launcher; needed if several jobs run on this host."
        ),
    ] = None,
    *,
    options: ReportOptions,
) -> None:
    """Say what every rank of a running job is doing, and which one keeps the others waiting. The job goes on."""
    from ddpdoctor.cli.report_output import conclude, judge
    from ddpdoctor.host.running_jobs import find_jobs
    from ddpdoctor.workflows.hang import look, unexplained, users_files
    from ddpdoctor.workflows.lint_hints import suspects

    job = chosen_job(find_jobs(), pids or [], command="hang")
    evidence = look(job)
    if not (options.select or judge(evidence, options).explained) and (reasons := unexplained(evidence)):
        hints = suspects(users_files(job, evidence))
        evidence = replace(evidence, undecided=(*evidence.undecided, *reasons), notes=(*evidence.notes, *hints))
    conclude(evidence, options)


def chosen_job(found: FoundProcesses, pids: list[int], *, command: str) -> RunningJob:
    """The job that `pids` belong to, or the only one on this host; `command` is the one that hints name.

    Raises:
        UsageError: a process is not there or of no job, or several jobs run and none was named.
        UndecidedError: there is no job here, it cannot be inspected, or its launcher has no ranks here.
    """
    from ddpdoctor.errors import UsageError

    jobs = _jobs_of(found, pids, command) if pids else found.jobs
    if len(jobs) > 1:
        raise UsageError(
            f"{len(jobs)} jobs run on this host; give the process id of one:",
            details=(f"`ddpdoctor {command} {job.pids[0]}`: {job.summary}" for job in jobs),
        )
    if not jobs:
        raise _why_no_job(found)
    return jobs[0]


def _jobs_of(found: FoundProcesses, pids: list[int], command: str) -> Sequence[RunningJob]:
    """The jobs that these processes are ranks, launchers or workers of: at least one.

    Raises:
        UsageError: a process is not there, or all of them are of no job.
        UndecidedError: a process cannot be inspected, or is a launcher without ranks here.
    """
    from ddpdoctor.errors import UndecidedError, UsageError
    from ddpdoctor.host.launchers import launchers_at
    from ddpdoctor.host.processes import command as words
    from ddpdoctor.host.processes import is_alive
    from ddpdoctor.host.running_jobs import jobs_of
    from ddpdoctor.ranks.stacks import why_forbidden
    from ddpdoctor.workflows.idle_launchers import without_ranks

    without = f"run `ddpdoctor {command}` without a process id: it finds the ranks itself"
    for pid in pids:
        if not is_alive(pid):
            raise UsageError(f"there is no process {pid} on this host", hint=without)
        if pid in found.forbidden:
            raise UndecidedError(f"this job cannot be inspected: {why_forbidden(pid)}")
    jobs = {job.name: job for pid in pids for job in jobs_of(found.jobs, pid)}
    if not jobs and (launchers := launchers_at(pids[0])):
        raise without_ranks(launchers)
    if not jobs:
        raise UsageError(
            f"process {pids[0]} is neither a rank of a job nor its launcher: no RANK or WORLD_SIZE in its environment",
            details=(f"process {pids[0]} runs {words(pids[0])[:200]}",),
            hint=without,
        )
    return [*jobs.values()]


def _why_no_job(found: FoundProcesses) -> UndecidedError:
    """Why no job was found on this host."""
    from ddpdoctor.errors import UndecidedError
    from ddpdoctor.host.launchers import all_launchers
    from ddpdoctor.ranks.stacks import why_forbidden
    from ddpdoctor.workflows.idle_launchers import without_ranks

    if found.forbidden:
        first, *others = found.forbidden
        more = f" (and {len(others)} more Python processes)" if others else ""
        return UndecidedError(f"no rank of a PyTorch job on this host can be inspected: {why_forbidden(first)}{more}")
    if launchers := all_launchers():
        return without_ranks(launchers)
    return UndecidedError(
        "no rank of a PyTorch job runs on this host",
        hint="run it on the host of the job, as the user of the job or as root, and inside its container if there is one",
    )
