"""One job under `ddpdoctor watch`: started, followed to its end, and ended where its user asked for that."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor import __version__
from ddpdoctor.agent import DIRECTORY, job_environment
from ddpdoctor.agent.inside.watch_feature import DEBUG_LEVEL
from ddpdoctor.cli import output
from ddpdoctor.cli.options import ReportOptions
from ddpdoctor.cli.status_line import JobProgress, StatusLine, status_line
from ddpdoctor.cli.watch_reporter import WatchReporter
from ddpdoctor.cli.watch_side_files import SideFiles
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.ranks import EndRequest
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.launch.observed_job import ObservedJob, observe
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.model import Report, Severity, group_ranks, verb
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.workflows.shared_case import answer
from ddpdoctor.workflows.verdict_command import VerdictCommand
from ddpdoctor.workflows.watch.evidence import JobEvidence
from ddpdoctor.workflows.watch.loop import (
    POLL_SECONDS,
    Event,
    JobEnd,
    PeerNodeFailed,
    RankAtWork,
    Recovered,
    ReplicasDiverged,
    SlowJob,
    Stalled,
    Watch,
)
from ddpdoctor.workflows.watch.multi_node import OtherNodes
from ddpdoctor.workflows.watch.replica_audit import ReplicaAudit, audit_environment
from ddpdoctor.workflows.watch.stall_detector import StallDetector

WORTH_SAYING_SECONDS = 10.0  # of no progress, when a signal ends the job
SYNC_FAMILY = ("DDP5",)
KILL_ON_HANG, ON_DIVERGENCE_STOP = "--kill-on-hang", "--on-divergence stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What the user asked for."""

    stall_after: float | None
    """Seconds without progress that count as a stall; None: from the job's step times."""
    kill_on_hang: bool
    """Whether a job is ended when its hang is explained, or after three attempts."""
    distributed_debug: str
    """TORCH_DISTRIBUTED_DEBUG of the ranks: `off`, `info` or `detail`."""
    verify_every: int | None
    """Compare the replicas every so many steps; 0: as often as the overhead allows; None: not at all."""
    probe_every: int
    """Every how many steps one batch runs through the model on all ranks; 0: never."""
    recompute: bool
    """Whether audited optimizer steps are made again, on copies."""
    stop_on_divergence: bool
    """Whether a job is ended when its replicas differ."""
    quiet: bool
    """No status line, and nothing at the end of a healthy job."""
    side_files: SideFiles
    """What is kept up to date beside the job."""
    verdict_command: VerdictCommand | None
    """What the user wants to be run when there is a verdict."""
    shared: Path | None
    """The directory in which the nodes of the job meet, if they do."""


def run_watched(command: Sequence[str], report_options: ReportOptions, wanted: WatchOptions) -> int:
    """Run `command` under observation; returns 1 for a problem, 3 for a hang that is not explained, else the job's exit code."""
    with (
        contextlib.closing(OtherNodes(wanted.shared)) as nodes,
        private_directory(for_sockets=True) as folder,
        contextlib.ExitStack() as stack,
    ):
        directory = folder.path
        audit = None
        if wanted.verify_every is not None:
            audit = stack.enter_context(contextlib.closing(ReplicaAudit(directory)))
        environ = {
            **job_environment(["watch", *(["verify_sync"] if audit else [])], directory, os.environ),
            "DDPDOCTOR_WATCHER": str(os.getpid()),
            **_debug_environment(wanted.distributed_debug),
            **(_audit_environment(wanted) if audit else {}),
        }
        with (
            observe(
                command,
                environ=environ,
                mark=f"{DIRECTORY}={directory}",
                folder=folder,
                die_with_us=wanted.kill_on_hang or wanted.stop_on_divergence,
            ) as job,
            status_line(shown=not wanted.quiet) as line,
        ):
            run = CommandRun(command=shlex.join(command), started_at=time.time(), versions={"ddpdoctor": __version__})
            known = JobEvidence(job=job, directory=directory, environment=_environment(), run=run, audit=audit)
            return _Session(job, known, nodes, line, report_options, wanted, command).run()


class _Session:
    """What each event of the job makes us say, write, run or end."""

    def __init__(
        self,
        job: ObservedJob,
        known: JobEvidence,
        nodes: OtherNodes,
        line: StatusLine,
        report_options: ReportOptions,
        wanted: WatchOptions,
        command: Sequence[str],
    ) -> None:
        self._job = job
        self._known = known
        self._nodes = nodes
        self._line = line
        self._report_options = report_options
        self._wanted = wanted
        self._progress = JobProgress()
        self._reporter = WatchReporter(
            report_options,
            nodes,
            command,
            self._progress,
            wanted.side_files,
            wanted.verdict_command,
            quiet=wanted.quiet,
        )
        self._watch = Watch(
            known=known, stall_detector=StallDetector(given=wanted.stall_after), nodes=nodes, on_poll=self._on_poll
        )
        self._stalled = False  # whether a stall has been reported that is not over
        self._ended_by = ""  # the option by which we ended the job
        self._idle = 0.0  # seconds without progress, at the last look before a signal reached us

    def run(self) -> int:
        """Follow the job to its end; returns the exit code of the command.

        Where watching fails, the error comes once the job has ended: a scheduler ends what is left of a step when the command
        that it has started is gone.
        """
        try:
            return self._follow()
        except Exception as error:
            self._line.close()
            if self._job.wait(0.0) is None:
                with contextlib.suppress(OSError):
                    output.say(f"watching failed ({type(error).__name__}: {error}); the job goes on unwatched")
                while self._job.wait(POLL_SECONDS) is None:
                    pass
                self._job.drain()
            raise

    def _follow(self) -> int:
        for event in self._watch.events():
            if isinstance(event, JobEnd):
                return self._on_end(event)
            self._on_event(event)
        raise AssertionError("events() ends with JobEnd")

    def _on_poll(self, ranks: Sequence[RankProcess], idle: float) -> None:
        self._idle = idle if not self._job.received else self._idle
        self._wanted.side_files.update(ranks, idle)
        if (folder := self._wanted.side_files.case_wanted()) is not None:
            answer(folder, self._known.during_stall(tuple(ranks), idle, stalled=self._stalled))
        if self._progress.observe(ranks, idle, time.monotonic()):
            self._line.update(self._progress.in_words())

    def _on_event(self, event: Event) -> None:
        reporter, nodes = self._reporter, self._nodes
        match event:
            case Stalled():
                self._on_stall(event)
            case ReplicasDiverged(evidence=evidence) if nodes.reports or self._wanted.stop_on_divergence:
                report = reporter.judged(evidence, about=SYNC_FAMILY)
                if self._wanted.stop_on_divergence and any(
                    one.severity is not Severity.INFO for one in report.findings
                ):
                    reporter.say(f"{_name(report)}: ending the job; the verdict follows below")
                    self._end_job(ON_DIVERGENCE_STOP)
                else:
                    reporter.show(report)
            case PeerNodeFailed() if self._wanted.kill_on_hang:
                self._end_job(KILL_ON_HANG)
            case RankAtWork(text=text):
                reporter.say(f"note: {text}")
            case Recovered(seconds=seconds):
                self._stalled = False
                reporter.resumed(seconds)
            case SlowJob(evidence=evidence, codes=codes) if nodes.reports:
                reporter.show(reporter.judged(evidence, about=codes))

    def _on_stall(self, stall: Stalled) -> None:
        self._stalled = True
        reporter, wanted = self._reporter, self._wanted
        report = reporter.judged(stall.evidence)
        healthy_yet = bool(stall.alive) and wanted.stall_after is None
        ended = wanted.kill_on_hang and self._nodes.reports and (report.explained or stall.last) and not healthy_yet
        if ended:
            reporter.say(f"no progress for {stall.seconds:.0f} s: {_why_ended(report)}; the verdict follows below")
            self._end_job(KILL_ON_HANG)
            return
        reporter.show(report, idle=stall.seconds)
        if not self._nodes.reports:
            return
        if not report.explained and not stall.last:
            reporter.say(f"next attempt in {self._watch.look_again():.0f} s")
        elif wanted.kill_on_hang:
            reporter.say(f"{_shows_life(stall.alive)}; looking again in {self._watch.look_again():.0f} s")

    def _on_end(self, end: JobEnd) -> int:
        self._line.close()
        self._progress.observe(self._known.ranks(), 0.0, time.monotonic())  # they went on while a verdict was made
        report = self._reporter.judged(end.evidence)
        request = end.evidence.one(EndRequest)
        asked = f"{signal.Signals(request.signal).name} ended the job" if request is not None else ""
        if asked and self._idle >= WORTH_SAYING_SECONDS:
            asked += (
                f" after {self._idle:.0f} s without progress (`--stall-after {self._idle / 2:.0f}` judges such a pause)"
            )
        compared = self._known.replicas_compared()
        self._reporter.last(report, end.code, ended_by=self._ended_by, asked=asked, compared=compared)
        if not end.evidence.ranks and not report.findings:
            why = end.evidence.why_missing("Stacks")
            self._reporter.say(f"note: only stderr and the exit code were looked at, not the ranks: {why}")
        self._reporter.finish(end.code)
        job_code = end.code if end.code >= 0 else 128 - end.code
        if not self._nodes.reports:
            return job_code
        if self._ended_by and not report.explained:
            return 3
        return 1 if report.exit_code(self._report_options.fail_on) == 1 else job_code

    def _end_job(self, by: str) -> None:
        self._known.killed_at, self._ended_by = time.time(), by
        self._job.end()


def _debug_environment(level: str) -> dict[str, str]:
    """The debug level that the agent sets in each rank, unless the user has set TORCH_DISTRIBUTED_DEBUG.

    The job does not see that variable, so that its own `os.environ.setdefault` does what it does without us.
    """
    if level == "off" or "TORCH_DISTRIBUTED_DEBUG" in os.environ:
        return {}
    return {DEBUG_LEVEL: level.upper()}


def _audit_environment(wanted: WatchOptions) -> dict[str, str]:
    return audit_environment(wanted.verify_every or 0, wanted.probe_every, recompute=wanted.recompute)


def _environment() -> tuple[Environment, ...]:
    """The one variable that a crash of this job may come from; the others are `ddpdoctor env`'s business."""
    value = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "")
    return (Environment(variables={"TORCH_DISTRIBUTED_DEBUG": value}),) if value.upper() == "DETAIL" else ()


def _shows_life(ranks: Sequence[int]) -> str:
    """Why `--kill-on-hang` lets a job go on."""
    return (
        f"{group_ranks(ranks)} {verb(ranks, 'shows', 'show')} signs of life that a healthy job could show: the job is not ended; "
        "`--stall-after SECONDS` ends it after that time"
    )


def _why_ended(report: Report) -> str:
    """Said before a job is ended, as the launcher may print for some seconds."""
    if not report.explained:
        return "ending the job; its hang is not explained"
    return f"ending the job because of {_name(report)}"


def _name(report: Report) -> str:
    """`DDP305 missing-call`: the first finding."""
    first = report.findings[0]
    return f"{first.code} {first.rule.name}"
