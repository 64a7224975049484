"""`ddpdoctor verify-sync`: are the replicas equal, bit by bit."""

from __future__ import annotations

from typing import Annotated, Optional

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

DEADLINE_SECONDS = 120.0  # ten steps of a small network take a second; the imports of many ranks on few cores a minute
JUDGED_BY = ("DDP501", "DDP502", "DDP503", "DDP507", "DDP508")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("verify-sync")(verify_sync)


def verify_sync(
    nproc: Annotated[
        Optional[int],  # noqa: UP045 - typer on Python 3.10 reads Optional only
        typer.Option("--nproc", "-n", help="Start this many ranks here; leave it out under a launcher."),
    ] = None,
    deadline: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", help="End the job after this time.")
    ] = DEADLINE_SECONDS,
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Compare the replicas of the known-good job after ten steps: parameters, buffers and optimizer state, bit by bit."""
    options = report_options(
        format_=format_, output=output, select=select or list(JUDGED_BY), ignore=ignore, fail_on=fail_on, case=case,
        verbose=verbose, title="ddpdoctor verify-sync",
    )  # fmt: skip
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


def said(replicas: object) -> tuple[tuple[str, str], ...]:
    """What was compared, in words."""
    from ddpdoctor.evidence.replicas import Replicas

    assert isinstance(replicas, Replicas)
    return (
        ("compared", f"{replicas.tensors} tensors, {replicas.bytes:,} bytes, on {len(replicas.ranks)} ranks"),
        ("fingerprint", {"linear": "two-half linear, 128 bits", "xxh3": "XXH3, 128 bits"}[replicas.method]),
    )
