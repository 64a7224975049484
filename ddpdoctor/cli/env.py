"""`ddpdoctor env`: what is wrong with this host, or with the hosts of this launch, for DDP."""

from __future__ import annotations

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


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("env")(env)


def env(
    format_: FormatOption = Format.TEXT,
    output: OutputOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    fail_on: FailOnOption = FailOn.FAIL,
    case: CaseOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Judge this host; under torchrun, srun or mpirun every host of the launch, and what differs between ranks."""
    import socket

    from ddpdoctor.cli.conclude import conclude
    from ddpdoctor.collect.this_host import collect
    from ddpdoctor.collect.world import World
    from ddpdoctor.evidence import Evidence, RankFacts

    options = report_options(
        format_=format_,
        output=output,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        case=case,
        verbose=verbose,
        title="ddpdoctor env",
    )
    gathered = collect(World())
    evidence = Evidence(
        ranks=(RankFacts(rank=0, host=socket.gethostname(), facts=gathered.facts),),
        missing=gathered.missing,
        notes=gathered.notes,
        launched=False,
    )
    conclude(evidence, options)
