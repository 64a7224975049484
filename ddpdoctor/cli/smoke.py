"""`ddpdoctor smoke`: what the CI of a cluster or a repository runs; one report out of everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.evidence.merge import join
from ddpdoctor.evidence.replicas import Replicas
from ddpdoctor.evidence.training import TrainingRun
from ddpdoctor.model import Measure, Report

BENCH_SIZES = (1 << 10, 1 << 16, 1 << 20)  # a small message, one as DDP's smallest bucket, one as most of its buckets
BENCH_SECONDS = 4.0
DEADLINE_SECONDS = 120.0  # for one stage; all of them together take under 60 s on two idle cores


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("smoke", short_help="Check in a minute whether this machine can run DDP.")(smoke)


@reports
def smoke(
    nproc: Annotated[int, typer.Option("--nproc", "-n", help="Start this many ranks here.")] = 2,
    *,
    path: Annotated[
        Optional[Path],  # noqa: UP045 - as the other options
        typer.Option("--path", metavar="SRC", help="Also lint the training code and scripts at SRC."),
    ] = None,
    options: ReportOptions,
) -> None:
    """Check in under a minute whether this host is fit for DDP.

    Its environment, a short bench, replicas bit by bit, and a job that must learn.
    """
    from ddpdoctor.cli.places_to_write import check_places
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import judge, keep, show, with_command
    from ddpdoctor.launch.ranks import checked_nproc, current_launch
    from ddpdoctor.render import summary
    from ddpdoctor.workflows.lint import joined

    if launch := current_launch():
        raise UsageError(
            f"smoke starts its own ranks, but {launch.launcher} already started this as rank {launch.rank}",
            hint="run `ddpdoctor smoke --nproc N` without a launcher, or `ddpdoctor train` under it",
        )
    checked_nproc(nproc)
    check_places(options)
    linted = _lint(path, options) if path is not None else None
    stages = {}
    with progress(next(iter(STAGES))) as display:
        for number, (name, stage) in enumerate(STAGES.items(), start=1):
            display.stage(f"{name} ({number} of {len(STAGES)})")
            stages[name] = _timed(name, stage, nproc)
    evidence = with_command(join([stage.evidence for stage in stages.values()], one_job=False), options)
    report = replace(
        judge(evidence, options),
        measured={name: {"seconds": stage.seconds, **stage.measured} for name, stage in stages.items()},
    )
    facts = [(name, f"{stage.outcome} ({stage.seconds:.1f} s)") for name, stage in stages.items()]
    if linted is not None:
        report = joined(report, linted)
        facts.append((f"lint of {path}", summary(linted)))
    if options.format is Format.TEXT:
        output.table(facts)
    code = show(report, options, evidence=evidence, facts=facts)
    keep(evidence, options)
    raise typer.Exit(code)


def _lint(path: Path, options: ReportOptions) -> Report:
    """What `lint` says of the code at `path`, with the project's configuration.

    Raises:
        UsageError: the path does not exist, or the configuration is wrong.
    """
    from ddpdoctor.cli.lint import project_config
    from ddpdoctor.workflows.lint import LintOptions, lint_paths

    config = project_config([path])
    wanted = LintOptions(select=options.select, ignore=options.ignore, config=config, baseline=config.baseline)
    return lint_paths([path], wanted).report


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one stage gave."""

    evidence: Evidence
    """What its rules judge; undecided with the reason where the stage could not run."""
    outcome: str
    """The result in a few words."""
    measured: Mapping[str, Measure] = field(default_factory=dict)
    """The result in numbers, for machines."""
    seconds: float = 0.0
    """How long it took."""


def _timed(name: str, stage: Callable[[int], Stage], nproc: int) -> Stage:
    """The stage, run; one that could not be judged leaves the report undecided instead of ending it."""
    start = time.monotonic()
    try:
        done = stage(nproc)
    except DdpdoctorError as error:
        done = Stage(evidence=Evidence(undecided=(f"{name}: {error.message}",)), outcome="could not be judged")
    return replace(done, seconds=time.monotonic() - start)


def _train(nproc: int) -> Stage:
    from ddpdoctor.cli.train import in_numbers
    from ddpdoctor.workflows.reference_job import ReferenceJob, run_training

    evidence, _ = run_training(ReferenceJob(nproc=nproc, deadline_seconds=DEADLINE_SECONDS))
    run = evidence.one(TrainingRun)
    if run is None:
        return Stage(evidence=evidence, outcome="could not be judged")
    outcome = f"{run.accuracy:.1%} of {run.test_samples} digits, {run.samples_per_second:,.0f} samples/s"
    return Stage(evidence=evidence, outcome=outcome, measured=in_numbers(evidence))


def _env(_nproc: int) -> Stage:
    from ddpdoctor.host.host_access import HostAccess
    from ddpdoctor.workflows.env import collect

    evidence = collect(HostAccess(), deadline_seconds=DEADLINE_SECONDS)
    assert evidence is not None, "only a rank that a launcher started leaves the talking to rank 0"
    return Stage(evidence=evidence, outcome=f"{sum(len(facts.facts) for facts in evidence.ranks)} kinds of facts read")


def _bench(nproc: int) -> Stage:
    from ddpdoctor.render import bench as words
    from ddpdoctor.workflows.benchmark import BenchPlan, run_bench

    evidence, _ = run_bench(BenchPlan(sizes=BENCH_SIZES, budget_seconds=BENCH_SECONDS), nproc=nproc)
    bench = evidence.one(CollectiveBench)
    if bench is None or not bench.sizes:
        return Stage(evidence=evidence, outcome="could not be judged")
    size, speed = words.facts(bench)[-1]
    return Stage(evidence=evidence, outcome=f"{bench.collective} of {size}: {speed}", measured=words.measured(bench))


def _verify_sync(nproc: int) -> Stage:
    from ddpdoctor.cli.verify_sync import comparison_facts
    from ddpdoctor.workflows.reference_sync import compare_reference

    evidence, _ = compare_reference(nproc=nproc, deadline_seconds=DEADLINE_SECONDS)
    replicas = evidence.one(Replicas)
    if replicas is None:
        return Stage(evidence=evidence, outcome="could not be judged")
    return Stage(evidence=evidence, outcome="; ".join(words for _, words in comparison_facts(replicas)))


STAGES: Mapping[str, Callable[[int], Stage]] = {
    "env": _env,
    "bench": _bench,
    "verify-sync": _verify_sync,
    "train": _train,
}
