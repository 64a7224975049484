"""What `watch` keeps up to date beside the job: the metrics of `--metrics`, and the rows that `top --case` shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.model import Report
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.target import Target
from ddpdoctor.render import prometheus
from ddpdoctor.workflows.rank_status import ENDED, StatusReader
from ddpdoctor.workflows.shared_case import CaseRequests
from ddpdoctor.workflows.shared_status import SharedRows

EVERY_SECONDS = 5.0


@dataclass(slots=True)
class SideFiles:
    """The files that `watch` keeps up to date beside the report."""

    metrics: Path | None
    """The file for Prometheus; None where it was not asked for."""
    shared: Path | None
    """The directory in which nodes meet; None where there is none."""
    problem: str = ""
    """Why the metrics could not be written, where they could not."""
    _ranks: Sequence[RankProcess] = ()
    _reader: StatusReader = field(default_factory=StatusReader)
    _statuses: tuple[RankStatus, ...] = ()
    _report: Report | None = None
    _next: float = 0.0
    _idle: float = 0.0
    _rows: SharedRows | None = None
    _requests: CaseRequests | None = None
    _wanted: Path | None = None

    def __post_init__(self) -> None:
        """Rows of this node are written where nodes meet, and only there; the same for cases that `top` asks for."""
        if self.shared is not None:
            self._rows, self._requests = SharedRows(self.shared), CaseRequests(self.shared)

    def update(self, ranks: Sequence[RankProcess], idle: float) -> None:
        """Sample the ranks and write, every few seconds and when a rank has come.

        Stacks are read for `top --case` alone, and of ranks without progress alone.
        """
        self._idle = idle
        if self.metrics is None and self.shared is None:
            return
        self._ranks = ranks
        if time.monotonic() >= self._next or len(ranks) > len(self._statuses):
            self._sample()
            self._write(None)

    def case_wanted(self) -> Path | None:
        """The folder in which `top --case` wants a case of this node, once for each request."""
        wanted, self._wanted = self._wanted, None
        return wanted

    def _sample(self) -> None:
        self._next = time.monotonic() + EVERY_SECONDS
        if self._requests is not None:
            self._wanted = self._requests.next() or self._wanted
        if self._ranks:
            targets = [Target(rank=agent.rank, pid=agent.pid, agent=agent) for agent in self._ranks]
            statuses = self._reader.sample(targets, stacks=self._rows is not None)
            if any(status.state != ENDED for status in statuses):  # of a job that has ended, its last moment is kept
                self._statuses = statuses
            if self._rows is not None:
                self._rows.write(self._statuses)

    def verdict(self, report: Report) -> None:
        """Note the latest verdict, and write it at once, with the ranks as they are now."""
        self._report = report
        self._sample()
        self._write(None)

    def end(self, code: int) -> None:
        """Write the exit code, and take this node's rows away."""
        self._write(code)
        if self._rows is not None:
            self._rows.remove()

    def _write(self, code: int | None) -> None:
        if self.metrics is None:
            return
        try:
            write_atomically(
                self.metrics, prometheus.render(self._statuses, self._report, idle=self._idle, exit_code=code)
            )
        except DdpdoctorError as error:
            self.problem = error.message
