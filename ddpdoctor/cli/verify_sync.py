"""`ddpdoctor verify-sync`: are the replicas equal, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional

from ddpdoctor.checkpoints.detect import is_checkpoint
from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output, sync_targets
from ddpdoctor.cli.local_ranks import NprocOption, ranks_here
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.cli.places_to_write import check_places
from ddpdoctor.cli.shared_exit_code import ends_alike
from ddpdoctor.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ddpdoctor.evidence import Evidence
    from ddpdoctor.evidence.replicas import Replicas
    from ddpdoctor.workflows.step_bisection import OpenQuestion
    from ddpdoctor.workflows.training_script import Audit, TrainingScript

DEADLINE_SECONDS = 120.0  # ten steps of a small network take a second; the imports of many ranks on few cores a minute
STALL_SECONDS = 600.0  # longer than an evaluation or a checkpoint, shorter than NCCL's default timeout


TargetArgument = Annotated[
    Optional[list[str]],  # noqa: UP045 - a default of None on Python 3.10
    typer.Argument(
        metavar="[SCRIPT [ARGS]... | CHECKPOINT...]",
        help="A training script and its options, which come last; or checkpoints of its ranks.",
    ),
]
OwnRanksOption = Annotated[
    bool,
    typer.Option("--own-ranks", help="The script starts its ranks itself, as with mp.spawn: run it once, with python."),
]
EveryOption = Annotated[
    int,
    typer.Option("--every", metavar="K", min=0, help="Check every Kth step; 0: as often as 0.5 % overhead allows."),
]
ProbeEveryOption = Annotated[
    int,
    typer.Option(
        "--probe-every",
        metavar="K",
        min=0,
        help="Every K steps, run one batch, the same on all ranks, through the model and compare its outputs; 0: never.",
    ),
]
RecomputeOption = Annotated[
    bool,
    typer.Option(
        "--recompute", help="Make each checked optimizer step again, on copies: what is not reproducible is named."
    ),
]
ReplayOption = Annotated[bool, typer.Option("--replay", help="Rerun the script to find the exact step and line.")]
StallAfterOption = Annotated[
    float,
    typer.Option(
        "--stall-after", metavar="SECONDS", min=1, help="End a script whose ranks record nothing for this long."
    ),
]
ToleranceOption = Annotated[
    float,
    typer.Option("--tolerance", metavar="T", min=0, help="Checkpoints: count differences up to T, do not report them."),
]
DeadlineOption = Annotated[
    float, typer.Option("--deadline", metavar="SECONDS", min=1, help="End the reference job after this time.")
]


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command(
        "verify-sync",
        short_help="Find where replicas diverge: the step, tensor and rank.",
        context_settings={"allow_interspersed_args": False},
    )(verify_sync)


@reports
@ends_alike
def verify_sync(
    target: TargetArgument = None,
    nproc: NprocOption = None,
    own_ranks: OwnRanksOption = False,
    every: EveryOption = 0,
    probe_every: ProbeEveryOption = 0,
    recompute: RecomputeOption = False,
    replay: ReplayOption = False,
    stall_after: StallAfterOption = STALL_SECONDS,
    tolerance: ToleranceOption = 0.0,
    deadline: DeadlineOption = DEADLINE_SECONDS,
    *,
    options: ReportOptions,
) -> None:
    """Find the first step, tensor and rank at which replicas diverge, and why.

    With a training script, unchanged: follows it step by step. With checkpoints (.pt, .safetensors, directories of
    torch.distributed.checkpoint): compares them, and runs nothing in them. Without either: compares the replicas of the
    reference job.
    """
    if target and is_checkpoint(Path(target[0])):
        _compare_checkpoints(target, options, tolerance)
    if tolerance:
        raise UsageError(
            f"--tolerance {tolerance:g} works on checkpoints only: running ranks are compared by fingerprints",
            hint="omit it, compare checkpoints, or call ddpdoctor.verify_sync(model, tolerance=...) in your code",
        )
    check_places(options)
    if target:
        from ddpdoctor.workflows.training_script import Audit

        audit = Audit(every=every, probe_every=probe_every, recompute=recompute)
        script = _script(target, nproc, own_ranks=own_ranks, replay=replay)
        raise typer.Exit(_track(script, audit, options, stall_after=stall_after, replay=replay))
    sync_targets.refuse_options_of_scripts({
        "--own-ranks": own_ranks,
        "--every": every,
        "--probe-every": probe_every,
        "--recompute": recompute,
        "--replay": replay,
    })  # fmt: skip
    _compare(options, ranks_here(nproc), deadline)


def _script(target: list[str], nproc: int | None, *, own_ranks: bool, replay: bool) -> TrainingScript:
    """The training script that a command line names, and who starts its ranks."""
    from ddpdoctor.workflows.training_script import TrainingScript

    sync_targets.refuse_script_before_checkpoints(target, nproc)
    sync_targets.refuse_what_is_no_script(target)
    if own_ranks:
        sync_targets.refuse_other_launchers(nproc)
    else:
        nproc = ranks_here(nproc)
    if replay and nproc is None and not own_ranks:
        raise UsageError(
            "--replay starts the script a second time, which only the launcher could do here",
            hint="give --nproc N to have the ranks started here, or run the launcher again with --every 1",
        )
    return TrainingScript(path=Path(target[0]), arguments=tuple(target[1:]), nproc=nproc, own_ranks=own_ranks)


def _compare_checkpoints(target: list[str], options: ReportOptions, tolerance: float) -> NoReturn:
    """Compare checkpoints that are there already; nothing is started."""
    from ddpdoctor.checkpoints.compare import compare_checkpoints
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.evidence.checkpoints import Checkpoints

    sync_targets.refuse_other_files(target)
    evidence = compare_checkpoints([Path(name) for name in target], tolerance=tolerance)
    found = evidence.one(Checkpoints)
    assert found is not None
    facts = (("compared", f"{found.tensors} tensors, {found.bytes:,} bytes, in {len(found.files)} checkpoints"),)
    if options.format is Format.TEXT:
        output.table(facts)
    conclude(evidence, options, facts=facts)


def _exact_options(script: TrainingScript) -> str:
    """The options that start its ranks in the same way, check every step, and run the script twice where that is possible."""
    if script.own_ranks:
        return "--own-ranks --every 1 --replay"
    return "--every 1" if script.nproc is None else f"--nproc {script.nproc} --every 1 --replay"


def _track(script: TrainingScript, audit: Audit, options: ReportOptions, *, stall_after: float, replay: bool) -> int:
    """Follow a script; the exit code is the verdict's, or the script's own where the verdict is silent."""
    from ddpdoctor.cli.progress import Progress
    from ddpdoctor.cli.report_output import judge, keep, show, with_command, with_excerpts
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.transport.store_files import IMPORT_SECONDS
    from ddpdoctor.workflows.verify_notes import audited_steps
    from ddpdoctor.workflows.verify_rerun import exact
    from ddpdoctor.workflows.verify_script import Tracked, track_script

    display = Progress(None, lines=False)  # the terminal is the script's
    waits, gathers = Waits(display, stall_after), Waits(display, stall_after + IMPORT_SECONDS)
    machine_readable = options.format is not Format.TEXT and options.output is None

    def run(audit: Audit) -> AbstractContextManager[Tracked]:
        return track_script(
            script,
            audit,
            stall_after=stall_after,
            quiet_stdout=machine_readable,
            on_wait=waits.note,
            on_gather=gathers.note,
        )

    def again(left: OpenQuestion) -> Evidence:
        with run(replace(audit, every=1, closely=left)) as tracked:
            assert tracked.evidence is not None
            return tracked.evidence

    command = f"ddpdoctor verify-sync {_exact_options(script)} {script.text}"
    with run(audit) as tracked:
        if tracked.evidence is None:
            return tracked.code
        evidence = exact(tracked.evidence, command, again if replay else None)
        evidence = with_command(evidence, options)
        report = judge(evidence, options)
        evidence = with_excerpts(evidence, report)
        facts = audited_steps(evidence)
        if not machine_readable:
            output.table(facts)
        code = show(report, options, evidence=evidence, facts=facts)
        keep(evidence, options)
        return code or tracked.code


def _compare(options: ReportOptions, nproc: int | None, deadline: float) -> None:
    from ddpdoctor.cli.progress import progress
    from ddpdoctor.cli.report_output import conclude
    from ddpdoctor.cli.waits import Waits
    from ddpdoctor.evidence.replicas import Replicas
    from ddpdoctor.launch.ranks import current_launch
    from ddpdoctor.workflows.reference_sync import compare_reference

    launch = current_launch()
    stage = f"comparing the replicas of the reference job (at most {deadline:.0f} s)"
    with progress(stage, shown=launch is None or launch.rank == 0 or launch.by_hand) as display:
        waits = Waits(display, deadline)
        evidence, speaks = compare_reference(nproc=nproc, deadline_seconds=deadline, on_wait=waits.note)
    if not speaks:
        raise typer.Exit(3 if evidence.undecided else 0)
    replicas = evidence.one(Replicas)
    facts = comparison_facts(replicas) if replicas is not None else ()
    if options.format is Format.TEXT:
        output.table(facts)
    conclude(evidence, options, facts=facts)


def comparison_facts(replicas: Replicas) -> tuple[tuple[str, str], ...]:
    """What was compared, in words."""
    ranks = "1 rank" if len(replicas.ranks) == 1 else f"{len(replicas.ranks)} ranks"
    return (
        ("compared", f"{replicas.tensors} tensors, {replicas.bytes:,} bytes, on {ranks}"),
        ("fingerprint", {"linear": "two-half linear, 128 bits", "xxh3": "XXH3, 128 bits"}[replicas.method]),
    )
