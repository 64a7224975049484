"""`ddpdoctor train`: the known-good job, or the same job made sick."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Optional

import typer

from ddpdoctor.cli.options import (
    CaseOption,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    OutputOption,
    SelectOption,
    VerboseOption,
    report_options,
)
from ddpdoctor.evidence.training import TrainingRun

JUDGED_BY = ("DDP522",)  # the rules about the known-good job itself


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(train)


def train(
    context: typer.Context,
    nproc: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Option("--nproc", "-n", help="Start this many ranks here; leave it out under a launcher."),
    ] = None,
    inject: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--inject", metavar="CODE", help="Run the job with this fault instead, such as DDP305."),
    ] = None,
    culprit: Annotated[int, typer.Option("--culprit", metavar="RANK", help="The rank that gets the fault.")] = 1,
    deadline: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--deadline", metavar="SECONDS", help="End the job after this time; without it, when it is silent."
        ),
    ] = None,
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run the known-good DDP job, which answers whether DDP itself works here.

    Every other option goes to the job (reference_train/train.py), or to the fault that is injected: --epochs 3,
    --data-dir DIR, --batch-size 64 over all ranks, --seed 1, --backend gloo or nccl.
    """
    if inject is not None:
        raise typer.Exit(run_sick(inject, culprit, nproc, context.args))
    options = report_options(
        format_=format_, output=output, select=select or list(JUDGED_BY), ignore=ignore, fail_on=fail_on, case=case,
        verbose=verbose, title="ddpdoctor train",
    )  # fmt: skip
    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.training import run_training

    with progress() as on_event:
        evidence, speaks = run_training(
            context.args, nproc=nproc, deadline_seconds=deadline or math.inf, on_event=on_event
        )
    if not speaks:
        raise typer.Exit(3 if evidence.undecided else 0)
    run = evidence.one(TrainingRun)
    facts = result(run) if run is not None else ()
    if options.format is Format.TEXT:
        for name, value in facts:
            typer.echo(f"{name:<12} {value}")
    conclude(evidence, options, facts=facts, measured=measured(run) if run is not None else {})


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


def result(run: TrainingRun) -> tuple[tuple[str, str], ...]:
    """The run in words: what, how well, how fast, and whether the ranks agree."""
    loss = "not finite" if run.test_loss is None else f"{run.test_loss:.4f}"
    same = "equal" if len(set(run.weights)) == 1 else "different"
    return (
        ("job", f"{run.model} on {run.dataset}, {len(run.epochs)} epochs of batch {run.batch_size}, seed {run.seed}"),
        ("ranks", f"{run.world_size} over {run.backend}, {run.device}"),
        ("accuracy", f"{run.accuracy:.1%} of {run.test_samples} test samples, loss {loss}"),
        ("speed", f"{run.samples_per_second:,.0f} samples/s, {run.seconds:.1f} s of training"),
        ("weights", f"{same} on all ranks ({', '.join(dict.fromkeys(run.weights))})"),
    )


def measured(run: TrainingRun) -> dict[str, Any]:
    """The run in numbers, for JSON."""
    from dataclasses import asdict

    return {"training": asdict(run)}


@contextmanager
def progress() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A bar on stderr where that is a terminal; yields what wants the job's events."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("starting the ranks", total=None)

        def on_event(event: Mapping[str, Any]) -> None:
            if event["event"] == "step":
                words = (
                    f"epoch {event['epoch']}, loss {event['loss']:.3f}, {event['samples_per_second']:,.0f} samples/s"
                )
                bar.update(task, description=words, completed=event["step"], total=event["steps"])

        yield on_event
