"""`ddpdoctor allreduce-bench`: how fast a collective is here, and whether its values are right."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.local_ranks import NprocOption, ranks_here
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.places_to_write import check_places
from ddpdoctor.cli.shared_exit_code import ends_alike
from ddpdoctor.errors import UsageError

if TYPE_CHECKING:
    from ddpdoctor.evidence import Evidence
    from ddpdoctor.evidence.bench import CollectiveBench, EarlierBench
    from ddpdoctor.workflows.benchmark import BenchPlan


class TimedCollective(typer.Choice):
    """What can be measured."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all_to_all"
    SEND_RECV = "send_recv"


REDUCING = (TimedCollective.ALL_REDUCE, TimedCollective.REDUCE_SCATTER, TimedCollective.REDUCE)


class Dtype(typer.Choice):
    """The elements."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    INT64 = "int64"


class Operator(typer.Choice):
    """The reduction."""

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


CollectiveOption = Annotated[
    TimedCollective,
    typer.Option("--collective", metavar="NAME", help=f"Collective to measure: {TimedCollective.listed()}."),
]
SizesOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--sizes", metavar="SIZES", help="A range in factors of four (1K..64M), or sizes separated by commas."
    ),
]
DtypeOption = Annotated[
    Dtype, typer.Option("--dtype", metavar="DTYPE", help=f"Data type of the elements: {Dtype.listed()}.")
]
OpOption = Annotated[
    Optional[Operator],  # noqa: UP045
    typer.Option("--op", help="Reduction, for collectives that reduce.  [default: sum]"),
]
ItersOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--iters", min=1, max=100_000, help="Timed iterations per size.  [default: 5 to 500, by the budget]"),
]
WarmupOption = Annotated[int, typer.Option("--warmup", min=1, max=10_000, help="Warm-up iterations per size.")]
TimeBudgetOption = Annotated[
    float,
    typer.Option(
        "--time-budget", min=1, max=86_400, metavar="SECONDS", help="Skip sizes that have not started by then."
    ),
]
SaveOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--save", metavar="FILE", help="Save the measurements to FILE, for --compare."),
]
CompareOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--compare", metavar="FILE", help="Report what is slower than in this saved run, beyond noise."),
]
PlotOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--plot", metavar="FILE", help="Draw bandwidth over size: a .png or .svg (needs matplotlib)."),
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("allreduce-bench", short_help="Time a collective and check every value of its result.")(allreduce_bench)


@reports
@ends_alike
def allreduce_bench(
    nproc: NprocOption = None,
    collective: CollectiveOption = TimedCollective.ALL_REDUCE,
    sizes: SizesOption = None,
    dtype: DtypeOption = Dtype.FLOAT32,
    op: OpOption = None,
    iters: ItersOption = None,
    warmup: WarmupOption = 5,
    time_budget: TimeBudgetOption = 30.0,
    save: SaveOption = None,
    compare: CompareOption = None,
    plot: PlotOption = None,
    *,
    options: ReportOptions,
) -> None:
    """Time a collective over a range of sizes, and check every value: gloo on CPUs, NCCL on GPUs."""
    from ddpdoctor.cli.sizes import parse_sizes
    from ddpdoctor.workflows.benchmark import BenchPlan, load_bench

    plan = BenchPlan(
        collective=collective.value,
        sizes=parse_sizes(sizes) if sizes is not None else None,
        dtype=dtype.value,
        op=operator(collective, dtype, op),
        iterations=iters,
        warmup=warmup,
        budget_seconds=time_budget,
    )
    nproc = ranks_here(nproc)
    check_ranks(nproc, collective)
    check_plot(plot)
    check_places(options, {"--save": save, "--plot": plot})
    earlier = load_bench(compare) if compare is not None else None
    _conclude(_measured(plan, nproc), earlier, options, save=save, plot=plot)


def _measured(plan: BenchPlan, nproc: int | None) -> Evidence:
    """Run the benchmark with its progress on the terminal; a process that does not report for the job exits here."""
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.launch.ranks import current_launch
    from ddpdoctor.render.bench import short
    from ddpdoctor.workflows.benchmark import run_bench

    launch = current_launch()
    with progress("starting the ranks", shown=launch is None or launch.rank == 0 or launch.by_hand) as display:
        waits = Waits(display, plan.timeout_seconds)

        def on_event(event: Mapping[str, Any]) -> None:
            if event["event"] == "start":
                display.stage(f"{plan.collective}: measuring for at most {plan.budget_seconds:.0f} s")
            elif event["event"] == "trying":
                display.update(f"{plan.collective} of {short(event['size_bytes'])}")

        evidence, speaks = run_bench(plan, nproc=nproc, on_event=on_event, on_wait=waits.note)
    if not speaks:
        for reason in evidence.undecided:
            output.say(reason)
        raise typer.Exit(3 if evidence.undecided else 0)
    return evidence


def _conclude(
    evidence: Evidence, earlier: EarlierBench | None, options: ReportOptions, *, save: Path | None, plot: Path | None
) -> NoReturn:
    """Show what was measured and the report over it, write the files that were asked for, and exit."""
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.cli.terminal import screen
    from ddpdoctor.evidence.bench import CollectiveBench
    from ddpdoctor.evidence.links import Links
    from ddpdoctor.render import bench as words
    from ddpdoctor.render import link_matrix
    from ddpdoctor.workflows.benchmark import save_bench

    bench = evidence.one(CollectiveBench)
    if bench is None:
        conclude(evidence, options)
    links = evidence.one(Links)
    if options.format is Format.TEXT:
        output.show(f"{words.render(bench, width=screen().width)}\n")
        if links is not None:
            output.show(f"{link_matrix.heat_map(links)}\n\n")
    if earlier is not None:
        evidence = replace(evidence, job=(*evidence.job, earlier))
    facts = (("benchmark", words.title(bench)), ("values", words.values_line(bench)), *words.facts(bench))
    measured = {"bench": words.measured(bench)} | ({} if links is None else {"links": link_matrix.measured(links)})
    files = [
        *([partial(save_bench, bench, save)] if save is not None else []),
        *([partial(draw, bench, earlier, plot)] if plot is not None else []),
    ]
    conclude(evidence, options, facts=facts, measured=measured, afterwards=files)


def operator(collective: TimedCollective, dtype: Dtype, op: Operator | None) -> str | None:
    """The reduction by name, or None where there is none.

    Raises:
        UsageError: the collective does not reduce, or the mean of integers is asked for.
    """
    if collective not in REDUCING:
        if op is not None:
            raise UsageError(f"--op {op.value} was given, but {collective.value} does not reduce", hint="omit --op")
        return None
    if op is Operator.AVG and "int" in dtype.value:
        raise UsageError(f"--op avg is not defined for {dtype.value}", hint="use a floating dtype, or --op sum")
    return (op or Operator.SUM).value


def check_ranks(nproc: int | None, collective: TimedCollective) -> None:
    """Refuse numbers of ranks that cannot run the collective, before any rank is started.

    Raises:
        UsageError: there is one rank, and it cannot send to another.
    """
    from ddpdoctor.launch.ranks import checked_nproc, current_launch

    launch = current_launch()
    ranks = launch.world_size if launch is not None else checked_nproc(nproc)
    if ranks == 1 and collective is TimedCollective.SEND_RECV:
        raise UsageError("send_recv needs two ranks; there is 1", hint="try `--nproc 2`")


def check_plot(plot: Path | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is measured.

    Raises:
        UsageError: neither .png nor .svg, or matplotlib is missing.
    """
    if plot is None:
        return
    if plot.suffix not in (".png", ".svg"):
        raise UsageError(
            f"--plot {plot} is neither a .png nor a .svg file", hint=f"try `--plot {plot.with_suffix('.svg')}`"
        )
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed", hint="pip install 'ddpdoctor[plot]'")


def draw(bench: CollectiveBench, earlier: EarlierBench | None, path: Path) -> None:
    """Draw the run, and the one it is compared with, to `path`."""
    from ddpdoctor.atomic_file import write_atomically
    from ddpdoctor.render import bench_plot

    benches = [("this run", bench), *([(earlier.source, earlier.bench)] if earlier is not None else [])]
    write_atomically(path, bench_plot.render(benches, file_format=path.suffix[1:]))
