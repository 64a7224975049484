"""`ddpdoctor watch -- COMMAND`: run a job under observation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Optional

from typer.core import TyperCommand

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.errors import UsageError

VERIFY_SYNC = "--verify-sync"


class DistributedDebug(typer.Choice):
    """The debug level of torch.distributed in the job's ranks."""

    OFF = "off"
    INFO = "info"
    DETAIL = "detail"


class OnDivergence(typer.Choice):
    """What happens to a job whose replicas differ."""

    REPORT = "report"
    STOP = "stop"


class WatchCommand(TyperCommand):
    """`watch`, with an option whose value may be left out: `--verify-sync` or `--verify-sync=10`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's Context, from wherever typer has it
        """Give `--verify-sync` the value 0 where it has none. The first argument that is no option begins the job's command."""
        takes_value = {name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts}
        args, place = [*args], 0
        while place < len(args) and args[place].startswith("-") and args[place] != "--":
            if args[place] == VERIFY_SYNC:
                args[place] = f"{VERIFY_SYNC}=0"
            place += 2 if args[place] in takes_value else 1
        return super().parse_args(ctx, args)


CommandArgument = Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Command that starts the job.")]
StallAfterOption = Annotated[
    Optional[float],  # noqa: UP045 - a default of None on Python 3.10
    typer.Option(
        "--stall-after",
        metavar="SECONDS",
        min=1.0,
        help="Time without progress that counts as a stall; up to 120 while a process imports modules. [default: from the "
        "job's step times, at least 30; 120 before the first step]",
    ),
]
KillOnHangOption = Annotated[
    bool, typer.Option("--kill-on-hang", help="End the job when its hang is explained, or after three attempts.")
]
VerifySyncOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        VERIFY_SYNC,
        metavar="[=K]",
        min=0,
        help="Compare the replicas, too: every Kth step; without K as often as 0.5 % overhead allows.",
    ),
]
ProbeEveryOption = Annotated[
    int,
    typer.Option(
        "--probe-every",
        metavar="K",
        min=0,
        help="With --verify-sync: every K steps, compare the model's outputs for one batch that all ranks share; 0: never.",
    ),
]
RecomputeOption = Annotated[
    bool,
    typer.Option(
        "--recompute",
        help="With --verify-sync: make each checked optimizer step again, on copies, to name what is not reproducible.",
    ),
]
OnDivergenceOption = Annotated[
    OnDivergence,
    typer.Option(help="With --verify-sync: what to do when replicas differ. Information (INFO) never stops a job."),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No status line, and nothing at the end of a healthy job.")
]
OnVerdictOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--on-verdict",
        metavar="COMMAND",
        help="Run this in a shell when there is a verdict, and when a stalled job resumes; it gets the report as JSON.",
    ),
]
MetricsOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--metrics", metavar="FILE", help="Keep metrics for Prometheus in FILE (textfile collector)."),
]
DistributedDebugOption = Annotated[
    DistributedDebug,
    typer.Option(help="TORCH_DISTRIBUTED_DEBUG of the job; detail makes collectives 9 times slower."),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command(
        "watch",
        cls=WatchCommand,
        short_help="Run a job; name rank, line and cause when it hangs or dies.",
        context_settings={"allow_interspersed_args": False},
    )(watch)


@reports
def watch(
    command: CommandArgument,
    stall_after: StallAfterOption = None,
    kill_on_hang: KillOnHangOption = False,
    verify_sync: VerifySyncOption = None,
    probe_every: ProbeEveryOption = 0,
    recompute: RecomputeOption = False,
    on_divergence: OnDivergenceOption = OnDivergence.REPORT,
    quiet: QuietOption = False,
    on_verdict: OnVerdictOption = None,
    metrics: MetricsOption = None,
    distributed_debug: DistributedDebugOption = DistributedDebug.INFO,
    *,
    options: ReportOptions,
) -> None:
    """Run a job under observation: say which rank, line and cause when it hangs or dies. No change to your code.

    Exits with the job's own code when nothing was found.
    """
    _refuse_what_lacks_an_output(options, metrics)
    if distributed_debug is DistributedDebug.DETAIL:
        _refuse_detail_without_gpus()
    if verify_sync is None:
        _refuse_options_of_the_audit({
            "--on-divergence stop": on_divergence is OnDivergence.STOP,
            f"--probe-every {probe_every}": probe_every > 0,
            "--recompute": recompute,
        })  # fmt: skip
    from ddpdoctor.cli.places_to_write import check_places, refuse_earlier_case
    from ddpdoctor.cli.watch_session import WatchOptions, run_watched
    from ddpdoctor.cli.watch_side_files import SideFiles
    from ddpdoctor.workflows.verdict_command import VerdictCommand

    check_places(options, {"--metrics": metrics})
    refuse_earlier_case(options.case)
    # the directory in which the nodes of a job may meet: `--case`, unless it names a file
    shared = None if options.case is None or options.case.suffix == ".json" else options.case
    wanted = WatchOptions(
        stall_after=stall_after,
        kill_on_hang=kill_on_hang,
        distributed_debug=distributed_debug.value,
        verify_every=verify_sync,
        probe_every=probe_every,
        recompute=recompute,
        stop_on_divergence=on_divergence is OnDivergence.STOP,
        quiet=quiet,
        side_files=SideFiles(metrics=metrics, shared=shared),
        verdict_command=VerdictCommand(command=on_verdict) if on_verdict is not None else None,
        shared=shared,
    )
    raise typer.Exit(run_watched(command, options, wanted))


def _refuse_what_lacks_an_output(options: ReportOptions, metrics: Path | None) -> None:
    """Refuse a report on stdout that is not text, and metrics that would be written to a directory."""
    if options.format is not Format.TEXT and options.output is None:
        raise UsageError(
            f"--format {options.format.value} needs --output: stdout belongs to the job",
            hint="add `--output report.json`",
        )
    if metrics is not None and metrics.is_dir():
        raise UsageError(f"--metrics {metrics} is a directory", hint=f"name a file: `--metrics {metrics / 'job.prom'}`")


def _refuse_options_of_the_audit(given: Mapping[str, bool]) -> None:
    """Refuse options that say how replicas are compared, where they are not."""
    option = next((option for option, is_given in given.items() if is_given), None)
    if option is not None:
        raise UsageError(f"{option} needs --verify-sync", hint="add `--verify-sync` before the `--`")


def _refuse_detail_without_gpus() -> None:
    """DETAIL kills the constructor of a DDP on gloo with SIGSEGV: DDP411."""
    from importlib.metadata import PackageNotFoundError, version

    from ddpdoctor.checks.ddp411_detail_debug_crashes_gloo import FIRST_BAD

    try:
        torch = version("torch")
    except PackageNotFoundError:
        return
    major, minor = (int(number) for number in torch.split(".")[:2])
    if (major, minor) >= FIRST_BAD and not Path("/dev/nvidia0").exists() and not Path("/dev/kfd").exists():
        raise UsageError(
            "--distributed-debug detail: this host has no GPU, so DDP runs on gloo, and its constructor crashes with "
            f"SIGSEGV in torch {torch} (DDP411)",
            hint="use `--distributed-debug info`; see `ddpdoctor explain DDP411`",
        )
