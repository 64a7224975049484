"""What has been read of a job log so far: of each rank, of the launcher, and of the job."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.job_log import FailureLine
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.logs import launchers
from ddpdoctor.logs.attempts import AttemptEnd
from ddpdoctor.logs.failure_signs import form_of, shows_work
from ddpdoctor.logs.torchrun_table import TorchrunTable
from ddpdoctor.logs.tracebacks import Tracebacks

TAIL_LINES = 20
MAX_FORMS = 1000
WORK_AFTER_A_SIGN = 2  # lines of one form, by which a job that had not begun yet shows that it goes on

_NO_PROGRESS = re.compile(r"NCCL INFO|^\[?[EWI] ?\d{0,4}[ \d:.]|^frame #|\[c10d\]|^\s*File \"")


@dataclass(slots=True)
class RankLines:
    """What the log shows of one rank, or of none."""

    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    """The exceptions that its lines show."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    """The last lines that are of no traceback."""
    said: list[str] = field(default_factory=list)
    """Its lines that show a failure."""
    code: int | None = None
    """Its exit code, or -N for signal N."""
    after_the_end: bool = False
    """Whether a launcher shows its end behind the line by which somebody ended the whole job."""
    pid: int | None = None
    """Its process, where a launcher shows it."""
    host: str = ""
    """Its host, where a table shows it."""
    ended_at: float | None = None
    """When it ended, in seconds since the epoch, where a table shows it."""
    first_error: int | None = None
    """The number of the line, among all that were read, of its first exception."""
    forms: set[str] = field(default_factory=set)
    """The forms of its lines with numbers before any failure."""
    after: dict[str, int] = field(default_factory=dict)
    """The forms of its lines of progress since the last failure, counted."""
    survived: int = 0
    """How many of its exceptions it survived."""
    survived_said: int = 0
    """How many of its lines that show a failure it survived."""
    of_a_range: bool = False
    """Whether this object stands for several ranks, of which only the exit code is known."""

    @property
    def failing(self) -> bool:
        """Whether an exception, or a line that shows a failure, has come since the rank last went on."""
        return self.tracebacks.begun or len(self.said) > self.survived_said

    def works_as_before(self, text: str, *, again: bool) -> bool:
        """Whether this line is of progress, with other numbers than one from before; `again` is False before any failure."""
        if not is_progress(text):
            return False
        form = form_of(text)
        if not again and len(self.forms) < MAX_FORMS:
            self.forms.add(form)
        return again and form in self.forms

    def goes_on(self, text: str) -> bool:
        """Whether this line is of a form that was written before any failure, or its second of one form since.

        With other numbers: `step 70 loss 0.3`.
        """
        if _NO_PROGRESS.search(text) or not any(map(str.isdigit, text)):
            return False
        form = form_of(text)
        if self.failing:
            if not shows_work(text):
                return form in self.forms
            self.after[form] = self.after.get(form, 0) + 1
            return form in self.forms or self.after[form] >= WORK_AFTER_A_SIGN
        if len(self.forms) < MAX_FORMS:
            self.forms.add(form)
        return False


@dataclass(frozen=True, slots=True)
class Crash:
    """A signal that a process reported before it died of it."""

    signal: int
    """The signal's number."""
    line: int
    """The number of the line, among all that were read, that reports it."""


@dataclass(slots=True)
class LogContents:
    """All that has been read so far."""

    file: str = ""
    """The path of the file that is being read, as it was given."""
    ranks: dict[int | None, RankLines] = field(default_factory=dict)
    """By rank, what the log shows of it."""
    table: TorchrunTable = field(default_factory=TorchrunTable)
    """torchrun's table of failures."""
    rows_counted: int = 0
    """Of how many rows of it `errors_before` is known."""
    closing: set[int] = field(default_factory=set)
    """The processes that the launcher ended."""
    oom_pids: set[int] = field(default_factory=set)
    """The processes that the kernel killed for memory."""
    oom_line: str | None = None
    """The line that shows it."""
    ended_by: str | None = None
    """The line by which a scheduler or a person ended the job."""
    signal: int | None = None
    """The signal that the launcher received."""
    launcher: str | None = None
    """Who started the ranks."""
    world_size: int | None = None
    """The number of ranks."""
    spawned: int | None = None
    """The rank whose error torch.multiprocessing is passing on."""
    several_nodes: bool = False
    """Whether a local rank is no rank."""
    local: list[launchers.LocalRankEnded] = field(default_factory=list)
    """Ends of local ranks."""
    ends: list[RankExit] = field(default_factory=list)
    """Ends of nobody knows whom."""
    crashes: dict[int | None, Crash] = field(default_factory=dict)
    """By rank, the signal that a handler in its process reported."""
    mpi_rank: int | None = None
    """The rank of mpirun's last `Process name:`."""
    failure_lines: list[FailureLine] = field(default_factory=list)
    """Lines that show a failure."""
    stalls: set[str] = field(default_factory=set)
    """Those of them that show a stall since the job last went on."""
    forms: dict[tuple[int | None, str], int] = field(default_factory=dict)
    """How often a form of such a line was met."""
    remarks: list[str] = field(default_factory=list)
    """Lines that can explain a failure."""
    announced: list[int] = field(default_factory=list)
    """The ranks that Lightning announced at the last start."""
    announced_at: int = 0
    """The line of the last announcement."""
    of_a_job: bool = False
    """Whether a line is of a job."""
    at_work: bool = False
    """Whether a line shows the job at work or at a clean end."""
    signs_before_end: int | None = None
    """How many lines of failures stand before the line that shows the end of the training; None where none does."""
    lines: int = 0
    """The number of the last line that was read, among all."""
    attempt_ends: list[AttemptEnd] = field(default_factory=list)
    """The lines by which torchrun said that a rank had failed."""
    works_again: bool = False
    """Whether a rank has gone on with its work since the last of them."""

    ranks_in_ranges: int = 0
    """How many ranks are known from ranges alone."""
    named_in_ranges: int = 0
    """How often a range named a rank."""
    left_out_of_ranges: int = 0
    """How often a range named a rank that was not taken: too large a number, or one too many."""

    def of(self, rank: int | None) -> RankLines:
        """What the log shows of this rank; of none where no rank can have this number."""
        rank = possible_rank(rank)
        found = self.ranks.setdefault(rank, RankLines())
        if found.of_a_range:
            found = self.ranks[rank] = RankLines(code=found.code)
        return found

    def forget_stalls(self) -> None:
        """The job has gone on: what was said of a stall is no failure."""
        self.failure_lines = [line for line in self.failure_lines if line.text not in self.stalls]
        for rank in self.ranks.values():
            rank.said = [text for text in rank.said if text not in self.stalls]
            rank.tail = deque((text for text in rank.tail if text.strip() not in self.stalls), maxlen=TAIL_LINES)
        self.stalls.clear()

    def numbered(self) -> dict[int, RankLines]:
        """What the log shows of each rank, without the lines of none."""
        return {number: rank for number, rank in self.ranks.items() if number is not None}


def is_progress(text: str) -> bool:
    """Whether this line reads like one of a training that goes on, with a number."""
    return _NO_PROGRESS.search(text) is None and any(map(str.isdigit, text)) and shows_work(text)


def possible_rank(rank: int | None) -> int | None:
    """The number, where a rank or a number of ranks can be so large."""
    return rank if rank is not None and rank <= MOST_RANKS else None
