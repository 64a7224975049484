"""`ddpdoctor watch -- COMMAND`: run a job under observation."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from typer.core import TyperCommand

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import Format, ReportOptions, reports
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Report, group_ranks

if TYPE_CHECKING:
    from ddpdoctor.cli.status_line import Progress
    from ddpdoctor.cli.watch_side_files import SideFiles
    from ddpdoctor.ranks.agent_files import RankProcess
    from ddpdoctor.workflows.verdict_command import VerdictCommand
    from ddpdoctor.workflows.watch.multi_node import OtherNodes

VERIFY_SYNC = "--verify-sync"
SYNC_FAMILY = ("DDP5",)
KILL_ON_HANG, ON_DIVERGENCE_STOP = "--kill-on-hang", "--on-divergence stop"
FIRST_BAD = (2, 13)  # as in checks/ddp411: seen on 2.13.0 and 2.15.0


class DistributedDebug(Enum):
    """The debug level of torch.distributed in the job's ranks."""

    OFF = "off"
    INFO = "info"
    DETAIL = "detail"


class OnDivergence(Enum):
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
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Command that starts the job.")],
    stall_after: Annotated[
        Optional[float],  # noqa: UP045 - a default of None on Python 3.10
        typer.Option(
            "--stall-after",
            metavar="SECONDS",
            min=1.0,
            help="Time without progress that counts as a stall. [default: from the job's step times, at least 30]",
        ),
    ] = None,
    kill_on_hang: Annotated[
        bool, typer.Option("--kill-on-hang", help="End the job when its hang is explained, or after three attempts.")
    ] = False,
    verify_sync: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            VERIFY_SYNC,
            metavar="[=K]",
            min=0,
            help="Compare the replicas, too: every Kth step; without K as often as 0.5 % overhead allows.",
        ),
    ] = None,
    on_divergence: Annotated[
        OnDivergence, typer.Option(help="With --verify-sync: what to do when replicas differ.")
    ] = OnDivergence.REPORT,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No status line, and nothing at the end of a healthy job.")
    ] = False,
    on_verdict: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--on-verdict",
            metavar="COMMAND",
            help="Run this in a shell when there is a verdict, and when a stalled job resumes; it gets the report as JSON.",
        ),
    ] = None,
    metrics: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--metrics", metavar="FILE", help="Keep metrics for Prometheus in FILE (textfile collector)."),
    ] = None,
    distributed_debug: Annotated[
        DistributedDebug,
        typer.Option(help="TORCH_DISTRIBUTED_DEBUG of the job; detail makes collectives 9 times slower."),
    ] = DistributedDebug.INFO,
    *,
    options: ReportOptions,
) -> None:
    """Run a job under observation: say which rank, line and cause when it hangs or dies. No change to your code.

    Exits with the job's own code when nothing was found.
    """
    from ddpdoctor.cli.watch_side_files import SideFiles
    from ddpdoctor.errors import UsageError
    from ddpdoctor.workflows.verdict_command import VerdictCommand

    if options.format is not Format.TEXT and options.output is None:
        raise UsageError(
            f"--format {options.format.value} needs --output: stdout belongs to the job",
            hint="add `--output report.json`",
        )
    if distributed_debug is DistributedDebug.DETAIL:
        _refuse_detail_without_gpus()
    if metrics is not None and metrics.is_dir():
        raise UsageError(f"--metrics {metrics} is a directory", hint=f"name a file: `--metrics {metrics / 'job.prom'}`")
    if on_divergence is OnDivergence.STOP and verify_sync is None:
        raise UsageError("--on-divergence stop needs --verify-sync", hint="add `--verify-sync` before the `--`")
    wanted = _Wanted(
        stall_after=stall_after,
        kill_on_hang=kill_on_hang,
        debug=distributed_debug,
        verify_every=verify_sync,
        stop_on_divergence=on_divergence is OnDivergence.STOP,
        quiet=quiet,
        side=SideFiles(metrics=metrics, shared=_shared(options)),
        told=VerdictCommand(command=on_verdict) if on_verdict is not None else None,
    )
    raise typer.Exit(_run(command, options, wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What the user asked for."""

    stall_after: float | None
    kill_on_hang: bool
    debug: DistributedDebug
    verify_every: int | None
    stop_on_divergence: bool
    quiet: bool
    side: SideFiles
    told: VerdictCommand | None


def _run(command: list[str], options: ReportOptions, wanted: _Wanted) -> int:
    from ddpdoctor import __version__
    from ddpdoctor.agent import DIRECTORY, job_environment
    from ddpdoctor.cli.status_line import Progress, status_line
    from ddpdoctor.evidence.run import CommandRun
    from ddpdoctor.launch.observed_job import observe, private_directory
    from ddpdoctor.workflows.watch.evidence import JobEvidence
    from ddpdoctor.workflows.watch.loop import (
        Diverged,
        JobEnd,
        PeerNodeFailed,
        Recovered,
        SlowJob,
        Stalled,
        Waiting,
        Watch,
    )
    from ddpdoctor.workflows.watch.multi_node import OtherNodes
    from ddpdoctor.workflows.watch.replica_audit import ReplicaAudit, audit_environment
    from ddpdoctor.workflows.watch.stall_detector import StallDetector

    stall_after, kill_on_hang = wanted.stall_after, wanted.kill_on_hang
    with contextlib.closing(OtherNodes(_shared(options))) as nodes, private_directory() as folder:
        progress = Progress()
        speaker = _Speaker(options, nodes, command, progress, wanted.side, wanted.told, quiet=wanted.quiet)
        audit = ReplicaAudit(Path(folder)) if wanted.verify_every is not None else None
        environ = {
            **job_environment(["watch", *(["verify_sync"] if audit else [])], Path(folder), os.environ),
            "DDPDOCTOR_WATCHER": str(os.getpid()),
            **_debug_environment(wanted.debug),
            **(audit_environment(wanted.verify_every or 0) if audit else {}),
        }
        mark, tail = f"{DIRECTORY}={folder}", Path(folder) / "stderr"
        with (
            observe(
                command, environ=environ, mark=mark, tail=tail, die_with_us=kill_on_hang or wanted.stop_on_divergence
            ) as job,
            status_line(shown=not wanted.quiet) as line,
        ):
            run = CommandRun(command=shlex.join(command), started_at=time.time(), versions={"ddpdoctor": __version__})
            known = JobEvidence(job=job, directory=Path(folder), environment=_environment(), run=run, audit=audit)

            def on_poll(ranks: Sequence[RankProcess], idle: float) -> None:
                wanted.side.update(ranks, idle)
                if progress.observe(ranks, idle, time.monotonic()):
                    line.update(progress.in_words())

            watching = Watch(known=known, stall_detector=StallDetector(given=stall_after), nodes=nodes, on_poll=on_poll)
            ended_by = ""  # the option by which we ended the job
            for event in watching.events():
                match event:
                    case Stalled(evidence=evidence, seconds=idle, last=last, alive=alive):
                        report = speaker.judged(evidence)
                        healthy_yet = bool(alive) and stall_after is None
                        if kill_on_hang and nodes.reports and (report.explained or last) and not healthy_yet:
                            speaker.say(
                                f"no progress for {idle:.0f} s: {_why_ended(report)}; the verdict follows below"
                            )
                            known.killed_at, ended_by = time.time(), KILL_ON_HANG
                            job.end()
                            continue
                        speaker.show(report, idle=idle)
                        if not nodes.reports:
                            continue
                        if not report.explained and not last:
                            speaker.say(f"next attempt in {watching.look_again():.0f} s")
                        elif kill_on_hang:
                            seconds = watching.look_again()
                            speaker.say(f"{_is_alive(alive)}; looking again in {seconds:.0f} s")
                    case Diverged(evidence=evidence) if nodes.reports or wanted.stop_on_divergence:
                        report = speaker.judged(evidence, about=SYNC_FAMILY)
                        if wanted.stop_on_divergence:
                            speaker.say(f"{_why_diverged(report)}: ending the job; the verdict follows below")
                            known.killed_at, ended_by = time.time(), ON_DIVERGENCE_STOP
                            job.end()
                        else:
                            speaker.show(report)
                    case PeerNodeFailed() if kill_on_hang:
                        known.killed_at, ended_by = time.time(), KILL_ON_HANG
                        job.end()
                    case Waiting(text=text):
                        speaker.say(f"note: {text}")
                    case Recovered(seconds=seconds):
                        speaker.say(f"no progress for {seconds:.1f} s, then the job resumed")
                        speaker.resumed(seconds)
                    case SlowJob(evidence=evidence, codes=codes) if nodes.reports:
                        speaker.show(speaker.judged(evidence, about=codes))
                    case JobEnd(code=code, evidence=evidence):
                        line.close()
                        if not evidence.ranks:
                            speaker.say(f"note: {evidence.why_missing('Stacks')}")
                        report = speaker.judged(evidence)
                        speaker.last(report, code, ended_by=ended_by)
                        speaker.finish(code)
                        if not nodes.reports:
                            return code if code >= 0 else 128 - code
                        if known.killed_at is not None and not report.explained:
                            return 3
                        found = report.exit_code(options.fail_on) == 1
                        return 1 if found else code if code >= 0 else 128 - code
    raise AssertionError("events() ends with Ended")


def _shared(options: ReportOptions) -> Path | None:
    """The directory in which the nodes of a job may meet: `--case`, unless it names a file."""
    return None if options.case is None or options.case.suffix == ".json" else options.case


def _refuse_detail_without_gpus() -> None:
    """DETAIL kills the constructor of a DDP on gloo with SIGSEGV: DDP411."""
    from importlib.metadata import PackageNotFoundError, version

    from ddpdoctor.errors import UsageError

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


def _debug_environment(debug: DistributedDebug) -> dict[str, str]:
    """The debug level that the agent sets in each rank, unless the user has set TORCH_DISTRIBUTED_DEBUG.

    The job does not see that variable, so that its own `os.environ.setdefault` does what it does without us.
    """
    from ddpdoctor.agent.inside.watch_feature import DEBUG_LEVEL

    if debug is DistributedDebug.OFF or "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        return {}
    return {DEBUG_LEVEL: debug.value.upper()}


def _environment() -> tuple[Environment, ...]:
    """The one variable that a crash of this job may come from; the others are `ddpdoctor env`'s business."""
    value = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "")
    return (Environment(variables={"TORCH_DISTRIBUTED_DEBUG": value}),) if value.upper() == "DETAIL" else ()


class _Speaker:
    """Says the verdict on stderr, as stdout is the job's, and writes it to `--output` whenever there is a new one.

    Where the node of rank 0 reports for all, the others say so once and nothing more.
    """

    def __init__(
        self,
        options: ReportOptions,
        nodes: OtherNodes,
        command: Sequence[str],
        progress: Progress,
        side: SideFiles,
        told: VerdictCommand | None,
        *,
        quiet: bool,
    ) -> None:
        self._side = side
        self._told = told
        self._told_of: tuple[str, ...] = ()
        self._options = options
        self._nodes = nodes
        self._command = shlex.join(command)
        self._progress = progress
        self._quiet = quiet
        self._began = time.monotonic()
        self._deferred = False
        self._said: tuple[str, ...] = ()
        self._lost: set[str] = set()

    def say(self, text: str) -> None:
        """One line about the job."""
        if self._nodes.reports:
            output.say(text)

    def judged(self, evidence: Evidence, *, about: Sequence[str] = ()) -> Report:
        """The verdict on `evidence`, written to `--output` and its evidence to `--case`.

        Evidence of a job in the middle of its work, which is `about` certain codes or families of them only, is no case to
        keep.
        """
        from ddpdoctor.case import write_atomically
        from ddpdoctor.cli.report_output import formatted, judge, keep

        report = judge(evidence, self._options)
        if about:
            report = replace(
                report, findings=tuple(found for found in report.findings if found.code.startswith(tuple(about)))
            )
        if not self._nodes.reports:
            return report
        self._side.verdict(report)
        self._tell(report)
        if self._options.output is not None:
            with self._complaining():
                write_atomically(
                    self._options.output, formatted(report, self._options, evidence=evidence), private=True
                )
        if not self._nodes.wrote and not about:
            with self._complaining():
                keep(evidence, self._options)
        return report

    def _tell(self, report: Report) -> None:
        """Run the user's command for a verdict that it has not been told of."""
        from ddpdoctor.render import json

        gist = _gist(report)
        if self._told is not None and gist and gist != self._told_of:
            self._told_of = gist
            self._told.run("verdict", json.render(report))

    def resumed(self, seconds: float) -> None:
        """Run the user's command for a stall that is over."""
        from ddpdoctor.model import Report
        from ddpdoctor.render import json

        self._told_of = ()
        if self._told is not None and self._nodes.reports:
            note = f"no progress for {seconds:.1f} s, then the job resumed"
            self._told.run("resumed", json.render(Report(outcomes=(), findings=(), notes=(note,))))

    def finish(self, code: int) -> None:
        """Write the last metrics, wait for the user's command, and say what of both went wrong."""
        self._side.end(code)
        if self._told is not None:
            self._told.finish()
        for problem in (self._side.problem, *(self._told.failures if self._told is not None else ())):
            if problem:
                self.say(f"{problem} (the job is not affected)")

    def show(self, report: Report, *, idle: float | None = None) -> None:
        """Show a verdict on a job that goes on, unless it stands above already; then one line says so."""
        if not self._nodes.reports:
            if report.findings and not self._deferred:
                self._deferred = True
                output.say("a problem was found; the node of rank 0 reports it for all nodes")
            return
        said = _gist(report)
        if said != self._said:
            self._said = said
            self._print(report)
        elif idle is not None:
            self.say(f"no progress for {idle:.0f} s by now; the verdict above has not changed")

    def last(self, report: Report, code: int, *, ended_by: str) -> None:
        """The last words, below everything that the job and its launcher printed: the verdict, or that nothing was found.

        Of a job that ended well, a verdict that stands above is not repeated.
        """
        said = _gist(report)
        if not self._nodes.reports or (not said and self._quiet):
            self.show(report)
        elif said and (code != 0 or ended_by or said != self._said):
            self._print(report, ended_by=ended_by)
        elif not said:
            ended = "" if code == 0 else f"; the job's exit code is {code if code >= 0 else 128 - code}"
            self.say(f"nothing found: {self._watched()}{ended}")

    def _print(self, report: Report, *, ended_by: str = "") -> None:
        from ddpdoctor.cli.terminal import heading, screen
        from ddpdoctor.render import text

        ended = f"; ended by {ended_by}" if ended_by else ""
        above = heading("watch", f"{self._command}: {self._watched()}{ended}")
        rendered = text.render(report, screen=screen(sys.stderr), verbose=self._options.verbose, heading=above)
        output.show(f"\n{rendered}", err=True, colored=True)  # the job may be in the middle of a line

    def _watched(self) -> str:
        """`8 ranks, 812 steps, 24 calls of torch.distributed per rank, 42 s`."""
        from ddpdoctor.cli.status_line import seconds

        words = [f"watched for {seconds(self._began)}"]
        progress = self._progress
        if progress.ranks:
            steps = f"{progress.steps:,} step{'' if progress.steps == 1 else 's'}"
            calls = f"{progress.calls:,} call{'' if progress.calls == 1 else 's'} of torch.distributed per rank"
            ranks = f"{progress.ranks} rank{'' if progress.ranks == 1 else 's'}"
            words = [ranks, *([steps] if progress.steps else []), *([calls] if progress.calls else []), *words]
        return ", ".join(words)

    @contextlib.contextmanager
    def _complaining(self) -> Iterator[None]:
        """A file that cannot be written costs that file and nothing else; it is said once."""
        from ddpdoctor.errors import DdpdoctorError

        try:
            yield
        except DdpdoctorError as error:
            if error.message not in self._lost:
                self._lost.add(error.message)
                self.say(f"{error.message} (the job is not affected)")


def _is_alive(ranks: Sequence[int]) -> str:
    """Why `--kill-on-hang` lets a job go on."""
    verb = "show" if len(ranks) > 1 else "shows"
    return (
        f"{group_ranks(ranks)} {verb} signs of life that a healthy job could show: the job is not ended; `--stall-after SECONDS` "
        "ends it after that time"
    )


def _why_ended(report: Report) -> str:
    """Said before a job is ended, as the launcher may print for some seconds."""
    if not report.explained:
        return "ending the job; its hang is not explained"
    first = report.findings[0]
    return f"ending the job because of {first.code} {first.rule.name}"


def _why_diverged(report: Report) -> str:
    first = report.findings[0]
    return f"{first.code} {first.rule.name}"


def _gist(report: Report) -> tuple[str, ...]:
    """What a verdict says, without the seconds that pass between two looks; empty where nothing was found."""
    findings = (f"{finding.code} {finding.message}" for finding in report.findings)
    return tuple(re.sub(r"\d{1,12}(?:\.\d{1,9})? (?:s|%)", "", line) for line in (*findings, *report.undecided))
