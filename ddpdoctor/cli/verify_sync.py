"""`ddpdoctor verify-sync`: are the replicas equal, bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ddpdoctor.cli.options import (
    CaseOption,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    IgnoreOption,
    OutputOption,
    ReportOptions,
    SelectOption,
    VerboseOption,
    report_options,
)

if TYPE_CHECKING:
    from ddpdoctor.evidence.replicas import Replicas

DEADLINE_SECONDS = 120.0  # ten steps of a small network take a second; the imports of many ranks on few cores a minute
STALL_SECONDS = 600.0  # longer than an evaluation or a checkpoint, shorter than NCCL's default timeout


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        "verify-sync",
        short_help="Find where replicas part: the step, tensor and rank.",
        context_settings={"allow_interspersed_args": False},
    )(verify_sync)


def verify_sync(
    target: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Argument(metavar="[SCRIPT [ARGS]...]", help="A training script and its options, which come last."),
    ] = None,
    nproc: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--nproc", "-n", help="Start this many ranks here; leave it out under a launcher."),
    ] = None,
    every: Annotated[
        int, typer.Option("--every", metavar="K", min=0, help="Look at every Kth step; 0: as often as costs 1.5 %.")
    ] = 0,
    stall_after: Annotated[
        float,
        typer.Option("--stall-after", metavar="SECONDS", help="End a script whose ranks write nothing for so long."),
    ] = STALL_SECONDS,
    deadline: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", help="End the known-good job after this time.")
    ] = DEADLINE_SECONDS,
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Find the first step, tensor and rank at which replicas part, and why.

    With a training script, unchanged: follows it step by step. Without: compares the replicas of the known-good job.
    """
    options = report_options(
        format_=format_, output=output, select=select, ignore=ignore, fail_on=fail_on, case=case, verbose=verbose,
        title="ddpdoctor verify-sync",
    )  # fmt: skip
    if target:
        raise typer.Exit(_track(target, options, nproc=nproc, every=every, stall_after=stall_after))
    _compare(options, nproc, deadline)


def _track(target: list[str], options: ReportOptions, *, nproc: int | None, every: int, stall_after: float) -> int:
    """Follow a script; the exit code is the verdict's, or the script's own where the verdict is silent."""
    from pathlib import Path

    from ddpdoctor.cli.conclude import judge, show
    from ddpdoctor.collect.tracked import track_script

    machine_readable = options.format is not Format.TEXT and options.output is None
    tracked = track_script(
        Path(target[0]), target[1:], nproc=nproc, every=every, stall_after=stall_after, quiet_stdout=machine_readable
    )
    code = show(judge(tracked.evidence, options), options)
    return code or tracked.code


def _compare(options: ReportOptions, nproc: int | None, deadline: float) -> None:
    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.replicas import compare_reference
    from ddpdoctor.evidence.replicas import Replicas

    evidence, speaks = compare_reference(nproc=nproc, deadline_seconds=deadline)
    if not speaks:
        raise typer.Exit(3 if evidence.undecided else 0)
    replicas = evidence.one(Replicas)
    facts = said(replicas) if replicas is not None else ()
    if options.format is Format.TEXT:
        for name, value in facts:
            typer.echo(f"{name:<12} {value}")
    conclude(evidence, options, facts=facts)


def said(replicas: Replicas) -> tuple[tuple[str, str], ...]:
    """What was compared, in words."""
    return (
        ("compared", f"{replicas.tensors} tensors, {replicas.bytes:,} bytes, on {len(replicas.ranks)} ranks"),
        ("fingerprint", {"linear": "two-half linear, 128 bits", "xxh3": "XXH3, 128 bits"}[replicas.method]),
    )
