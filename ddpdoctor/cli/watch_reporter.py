"""What `ddpdoctor watch` prints and writes of a job: verdicts, remarks, the user's own command, the last message."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.cli import output
from ddpdoctor.cli.report_output import formatted, judge, keep, summarise
from ddpdoctor.cli.status_line import JobProgress, seconds
from ddpdoctor.cli.terminal import heading, screen
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence import Evidence
from ddpdoctor.model import Report
from ddpdoctor.render import json, text
from ddpdoctor.secrets import redact_text
from ddpdoctor.workflows.step_bisection import unseen_steps

if TYPE_CHECKING:
    from ddpdoctor.cli.options import ReportOptions
    from ddpdoctor.cli.watch_side_files import SideFiles
    from ddpdoctor.workflows.verdict_command import VerdictCommand
    from ddpdoctor.workflows.watch.multi_node import OtherNodes


class WatchReporter:
    """Shows the verdict on stderr, as stdout is the job's, and writes it to `--output` whenever there is a new one.

    Where the node of rank 0 reports for all, the others say so once and nothing more.
    """

    def __init__(
        self,
        options: ReportOptions,
        nodes: OtherNodes,
        command: Sequence[str],
        progress: JobProgress,
        side: SideFiles,
        on_verdict: VerdictCommand | None,
        *,
        quiet: bool,
    ) -> None:
        self._side = side
        self._on_verdict = on_verdict
        self._commanded: tuple[str, ...] = ()
        self._options = options
        self._nodes = nodes
        self._command = shlex.join(command)
        self._progress = progress
        self._quiet = quiet
        self._began = time.monotonic()
        self._deferred = False
        self._compared = ""  # at which steps replicas were, once the job has ended
        self._shown: tuple[str, ...] = ()
        self._lost: set[str] = set()
        self._kept = False  # whether evidence is in the case
        self._resumed: list[str] = []  # the notes about stalls that were over, as they were said

    def say(self, text: str) -> None:
        """One line about the job."""
        if self._nodes.reports:
            output.say(text)

    def judged(self, evidence: Evidence, *, about: Sequence[str] = ()) -> Report:
        """The verdict on `evidence`, written to `--output` and its evidence to `--case`.

        Evidence of a job in the middle of its work, which is `about` certain codes or families of them only, is no case to
        keep.
        """
        report = judge(evidence, self._options)
        report = replace(report, notes=(*report.notes, *unseen_steps(report, evidence)))
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
        if not about:
            if not self._nodes.wrote:
                with self._complaining():
                    keep(evidence, self._options)
                    self._kept = self._options.case is not None
            self._kept = self._kept or self._nodes.wrote
        return report

    def _tell(self, report: Report) -> None:
        """Run the user's command for a verdict that it has not been told of."""
        gist = _gist(report)
        if self._on_verdict is not None and gist and gist != self._commanded:
            self._commanded = gist
            self._on_verdict.run("verdict", json.render(report))

    def resumed(self, idle: float) -> None:
        """Say, and tell the user's command, that a stall of `idle` seconds is over."""
        note = f"no progress for {idle:.1f} s, then the job resumed"
        self.say(note)
        self._resumed.append(note)
        self._commanded = ()
        if self._on_verdict is not None and self._nodes.reports:
            self._on_verdict.run("resumed", json.render(Report(outcomes=(), findings=(), notes=(note,))))

    def finish(self, code: int) -> None:
        """Write the last metrics, wait for the user's command, say what of both went wrong, and where the evidence is."""
        self._side.end(code)
        if self._on_verdict is not None:
            self._on_verdict.finish()
        for problem in (self._side.problem, *(self._on_verdict.failures if self._on_verdict is not None else ())):
            if problem:
                self.say(f"{problem} (the job is not affected)")
        if self._kept and self._options.case is not None and (self._shown or not self._quiet):
            case = shlex.quote(str(self._options.case))
            self.say(f"evidence saved in {self._options.case}; `ddpdoctor diagnose {case}` reads it on any machine")

    def show(self, report: Report, *, idle: float | None = None) -> None:
        """Show a verdict on a job that goes on, unless it stands above already; then one line says so."""
        if not self._nodes.reports:
            if report.findings and not self._deferred:
                self._deferred = True
                output.say("a problem was found; the node of rank 0 reports it for all nodes")
            return
        gist = _gist(report)
        if gist != self._shown:
            self._shown = gist
            self._print(report)
        elif idle is not None:
            self.say(f"no progress for {idle:.0f} s by now; the verdict above has not changed")

    def last(self, report: Report, code: int, *, ended_by: str, asked: str = "", compared: str = "") -> None:
        """The last message, below everything that the job and its launcher printed: the verdict, or that nothing was found.

        Of a job that ended well, a verdict that stands above is not repeated. `asked` says by which signal somebody ended the
        job, `compared` what of the replicas was.
        """
        self._compared = compared
        gist = _gist(report)
        if self._nodes.reports:
            summarise(report, self._options, [("job", redact_text(self._command)), ("watched", self._watched())])
        if not self._nodes.reports or (not gist and self._quiet):
            self.show(report)
        elif gist and (code != 0 or ended_by or gist != self._shown):
            self._shown = gist
            self._print(report, ended_by=ended_by)
        elif not gist:
            signalled = f"; {asked}" if asked else ""
            ended = "" if code == 0 else f"; the job's exit code is {code if code >= 0 else 128 - code}"
            self.say(f"nothing found: {self._watched()}{signalled}{ended}")
            for note in report.notes:
                if note not in self._resumed:
                    self.say(f"note: {note}")

    def _print(self, report: Report, *, ended_by: str = "") -> None:
        ended = f"; ended by {ended_by}" if ended_by else ""
        above = heading("watch", f"{self._command}: {self._watched()}{ended}")
        rendered = text.render(report, screen=screen(sys.stderr), verbose=self._options.verbose, heading=above)
        output.show(f"\n{rendered}", err=True, colored=True)  # the job may be in the middle of a line

    def _watched(self) -> str:
        """`8 ranks, 812 steps, 24 calls of torch.distributed per rank, 42 s`."""
        words = [f"watched for {seconds(self._began)}"]
        progress = self._progress
        if progress.ranks:
            steps = f"{progress.steps:,} step{'' if progress.steps == 1 else 's'}"
            calls = f"{progress.calls:,} call{'' if progress.calls == 1 else 's'} of torch.distributed per rank"
            ranks = f"{progress.ranks} rank{'' if progress.ranks == 1 else 's'}"
            words = [ranks, *([steps] if progress.steps else []), *([calls] if progress.calls else []), *words]
        return ", ".join([*words, *([self._compared] if self._compared else [])])

    @contextlib.contextmanager
    def _complaining(self) -> Iterator[None]:
        """A file that cannot be written costs that file and nothing else; it is said once."""
        try:
            yield
        except DdpdoctorError as error:
            if error.message not in self._lost:
                self._lost.add(error.message)
                self.say(f"{error.message} (the job is not affected)")


def _gist(report: Report) -> tuple[str, ...]:
    """What a verdict says, without the seconds that pass between two looks; empty where nothing was found."""
    findings = (f"{finding.code} {finding.message}" for finding in report.findings)
    return tuple(re.sub(r"\d{1,12}(?:\.\d{1,9})? (?:s|%)", "", line) for line in (*findings, *report.undecided))
