"""`ddpdoctor train`: the reference job, or the same job made sick."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Optional

from typing_extensions import assert_never

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.local_ranks import NprocOption, ranks_here
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.places_to_write import check_places
from ddpdoctor.cli.shared_exit_code import ends_alike
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import Gate, ParityRun, ScalingRun, TrainingRun

if TYPE_CHECKING:
    from ddpdoctor.cli.progress import Progress

HELP = {"-h", "--help"}


InjectOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--inject", metavar="CODE", help="Run the job with this fault injected, such as DDP305."),
]
CulpritOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--culprit", metavar="RANK", min=0, help="With --inject: rank that gets the fault.  [default: 1]"),
]
ParityOption = Annotated[bool, typer.Option("--parity", help="Check that N ranks compute what one process computes.")]
ScalingOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--scaling", metavar="1,2,4", help="Measure weak and strong scaling."),
]
DeadlineOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--deadline", metavar="SECONDS", min=1, help="Time limit. [default: ended when it makes no progress]"),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command(
        "train",
        short_help="Run the reference job: does DDP itself work here?",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(train)


@reports
@ends_alike
def train(
    context: typer.Context,
    nproc: NprocOption = None,
    inject: InjectOption = None,
    culprit: CulpritOption = None,
    parity: ParityOption = False,
    scaling: ScalingOption = None,
    deadline: DeadlineOption = None,
    *,
    options: ReportOptions,
) -> None:
    """Run a known-good DDP job, to see whether DDP works here.

    Every other option goes to the job, such as --dataset cifar10 --data-dir DIR --model resnet18 --amp bf16 --epochs 50;
    `ddpdoctor train -- --help` lists them. With --inject they go to the fault.
    """
    asked = [name for name, value in (("--inject", inject), ("--parity", parity), ("--scaling", scaling)) if value]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} cannot be combined", hint="give one of them")
    if culprit is not None and inject is None:
        raise UsageError(f"--culprit {culprit} needs --inject", hint="such as `--inject DDP305`")
    if inject is None and not HELP.isdisjoint(context.args):
        from ddpdoctor.workflows.reference_job import options_in_words

        output.show(options_in_words())
        raise typer.Exit
    check_places(options)
    if scaling is None:
        nproc = ranks_here(nproc)
    if inject is not None:
        raise typer.Exit(run_sick(inject, 1 if culprit is None else culprit, nproc, context.args))
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.launch.ranks import current_launch
    from ddpdoctor.workflows.reference_job import SILENCE_SECONDS, ReferenceJob, run_parity, run_training
    from ddpdoctor.workflows.reference_scaling import ranks_of, run_scaling

    speaks, seconds = True, deadline or math.inf
    launch = current_launch()
    with progress("starting the ranks", shown=launch is None or launch.rank == 0) as display:
        on_event = _Shown(display).event
        if scaling is not None:
            evidence = run_scaling(context.args, ranks=ranks_of(scaling), deadline_seconds=seconds, on_event=on_event)
        else:
            waits = Waits(display, min(seconds, SILENCE_SECONDS))
            job = ReferenceJob(
                arguments=context.args, nproc=nproc, deadline_seconds=seconds, on_event=on_event, on_wait=waits.note
            )
            evidence, speaks = run_parity(job) if parity else run_training(job)
    if not speaks:
        raise typer.Exit(3 if evidence.undecided else 0)
    table = evidence.one(ScalingRun)
    facts = [fact for run in ((table,) if table else evidence.job) for fact in in_words(run)]
    if options.format is Format.TEXT:
        output.table(facts)
    conclude(evidence, options, facts=facts, measured=in_numbers(evidence))


def run_sick(code: str, culprit: int, nproc: int | None, options: list[str]) -> int:
    """Run the job with one fault, its output and its exit code being ours; ddpdoctor does not judge it.

    Raises:
        UsageError: there is no such fault, or no rank `culprit`.
    """
    from ddpdoctor.launch.guarded_process import end, start_guarded
    from ddpdoctor.launch.private_directory import private_directory
    from ddpdoctor.launch.ranks import caches_in, checked_nproc, current_launch, ranks_command
    from ddpdoctor.launch.sick_jobs import find_fault

    fault = find_fault(code)
    launch = current_launch()
    ranks = launch.world_size if launch is not None else checked_nproc(nproc)
    if culprit >= ranks:
        there = f"are {ranks}" if ranks > 1 else "is 1"
        raise UsageError(
            f"there is no rank {culprit} for the fault: ranks are numbered from 0, and there {there}",
            hint=f"give `--culprit 0`, or `--nproc {culprit + 1}`",
        )
    with private_directory() as folder:
        place = str(folder.path)
        command, env = ranks_command(fault, ["--culprit", str(culprit), *options], nproc=nproc, logs=place)
        job = start_guarded(command, env={**env, **caches_in(place)}, folder=folder)
        try:
            return job.wait()
        finally:
            end(job)


def in_words(run: TrainingRun | ParityRun | ScalingRun) -> list[tuple[str, str]]:
    """The run for people, as (name, value)."""
    match run:
        case TrainingRun():
            loss = "not finite" if run.test_loss is None else f"{run.test_loss:.4f}"
            same = "equal" if len(set(run.weights)) == 1 else "different"
            words = [
                (
                    "job",
                    f"{run.model} on {run.dataset}, {len(run.epochs)} epochs of batch {run.batch_size}, seed {run.seed}",
                ),
                ("ranks", f"{run.world_size} over {run.backend}, {run.device}"),
                ("accuracy", f"{run.accuracy:.1%} of {run.test_samples} test samples, loss {loss}"),
                ("speed", f"{run.samples_per_second:,.0f} samples/s, {run.seconds:.1f} s of training"),
                ("weights", f"{same} on all ranks ({', '.join(dict.fromkeys(run.weights))})"),
            ]
            if run.phases:
                total = sum(run.phases.values())
                shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in run.phases.items())
                words.append(
                    ("step", shares + ("" if run.overlap is None else f"; {run.overlap:.0%} of communication hidden"))
                )
            if run.gpu_memory_bytes is not None:
                words.append(("GPU memory", f"{run.gpu_memory_bytes / 2**30:.2f} GiB peak, in tensors"))
            return words
        case ScalingRun():
            one = run.points[0]
            return [
                (
                    f"{point.ranks} rank{'s' if point.ranks > 1 else ''}",
                    f"weak {point.weak:,.0f} samples/s ({point.weak / point.ranks / one.weak:.0%}), "
                    f"strong {point.strong:,.0f} samples/s ({point.strong / point.ranks / one.strong:.0%})"
                    + ("" if point.overlap is None else f", {point.overlap:.0%} of communication hidden"),
                )
                for point in run.points
            ]
        case ParityRun():
            return [
                ("ranks", f"{run.world_size} over {run.backend}, {run.device}, against one process"),
                *((gate.name, _measured(gate)) for gate in run.gates),
            ]
        case _:
            assert_never(run)


def _measured(gate: Gate) -> str:
    verdict = "" if gate.passed else "  FAILS"
    if gate.allowed == 0:
        return ("yes" if gate.passed else "no") + verdict
    away = "not finite" if gate.measured is None else f"{gate.measured:.1e}"
    return f"{away}  (allowed {gate.allowed:.0e}){verdict}"


def in_numbers(evidence: Evidence) -> dict[str, Any]:
    """The runs for machines."""
    names = {TrainingRun: "training", ParityRun: "parity", ScalingRun: "scaling"}
    return {names[type(run)]: asdict(run) for run in evidence.job}


class _Shown:
    """Shows the job's events; each epoch is a stage."""

    def __init__(self, display: Progress) -> None:
        self._display = display
        self._epoch: object = None

    def event(self, event: Mapping[str, Any]) -> None:
        """One event of the job."""
        if event["event"] != "step":
            return
        if event["epoch"] != self._epoch:
            self._epoch = event["epoch"]
            self._display.stage(f"epoch {event['epoch']}")
        words = f"epoch {event['epoch']}, loss {event['loss']:.3f}, {event['samples_per_second']:,.0f} samples/s"
        self._display.update(words, done=event["step"], total=event["steps"])
