"""Job logs into what is known of each rank's end: any launcher's, a file a rank or all in one, cut anywhere."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.frames import is_launchers
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.logs import launchers
from ddpdoctor.logs.failure_signs import (
    explains_a_failure,
    form_of,
    is_of_a_job,
    shows_a_failure,
    shows_health,
    shows_work,
    time_of,
)
from ddpdoctor.logs.log_lines import LogLine, lines_of
from ddpdoctor.logs.torchrun_table import TorchrunTable
from ddpdoctor.logs.tracebacks import Tracebacks

TAIL_LINES = 20
MAX_SAID = 60
MAX_LINE_CHARACTERS = 500
MAX_FORMS = 1000
MAX_FAILURE_LINES = 400
MAX_PER_FORM = 3
LINES_OF_A_START = 100  # between the first and the last announcement of a rank at one start
MAX_RANKS_IN_RANGES = 1 << 16  # of all lines like `srun: error: node7: tasks 0-99999: Killed`, each rank once
MAX_NAMED_IN_RANGES = 1 << 20  # the same, each rank as often as a line names it
MAX_RANKS_OF_A_NODE = 1024
WORK_AFTER_A_SIGN = 2  # lines of one form, by which a job that had not begun yet shows that it goes on
LAUNCHERS_OWN = {
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SignalException",
    "RayTaskError",
}  # fmt: skip

_LAUNCHERS_LINE = re.compile(
    r"torch/distributed/elastic/|torch/multiprocessing/spawn\.py|torch/distributed/(?:run|launcher)"
)
_SPAWNED = re.compile(r"^-- Process (\d+) terminated with the following error:")
_NO_PROGRESS = re.compile(r"NCCL INFO|^\[?[EWI] ?\d{0,4}[ \d:.]|^frame #|\[c10d\]|^\s*File \"")
_ANNOUNCED = re.compile(r"GLOBAL_RANK: (\d+), MEMBER: \d+/(\d+)")
_WORLD = re.compile(r"(?:world[_ ]size|WORLD_SIZE|num_processes)\s*[=:]\s*(\d+)")


@dataclass(slots=True)
class _Rank:
    """What the log shows of one rank, or of none."""

    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    """Its exceptions."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    """The last lines that are of no traceback."""
    said: list[str] = field(default_factory=list)
    """Its lines that show a failure."""
    code: int | None = None
    """Its exit code, or -N for signal N."""
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
        return self.tracebacks.begun or len(self.said) > self.survived_said

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


@dataclass(slots=True)
class _Log:
    """All that has been read so far."""

    ranks: dict[int | None, _Rank] = field(default_factory=dict)
    """By rank, what the log shows of it."""
    table: TorchrunTable = field(default_factory=TorchrunTable)
    """torchrun's table of failures."""
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
    mpi_rank: int | None = None
    """The rank of mpirun's last `Process name:`."""
    failure_lines: list[FailureLine] = field(default_factory=list)
    """Lines that show a failure."""
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
    lines: int = 0
    """How many lines were read."""

    ranks_in_ranges: int = 0
    """How many ranks are known from ranges alone."""
    named_in_ranges: int = 0
    """How often a range named a rank."""
    left_out_of_ranges: int = 0
    """How often a range named a rank that was not taken: too large a number, or one too many."""

    def of(self, rank: int | None) -> _Rank:
        rank = _possible(rank)
        found = self.ranks.setdefault(rank, _Rank())
        if found.of_a_range:
            found = self.ranks[rank] = _Rank(code=found.code)
        return found


def read_logs(paths: Sequence[Path]) -> Evidence:
    """What the logs at `paths` show of the job and of each rank, one line after the other, whatever their size.

    Raises:
        OSError: one of them cannot be read.
    """
    log = _Log()
    for path in paths:
        try:
            for line in lines_of(path):
                log.lines += 1
                _take(log, line)
        except OSError as error:  # one of reading, and not of opening, names no file
            error.filename = str(path)
            raise
        for rank in log.ranks.values():
            rank.tracebacks.close()
        log.spawned = None
    _take_over_the_table(log)
    _give_local_ranks_their_ends(log)
    _absent_from_the_table(log)
    handled = [] if _shows_an_end(log) else [*_take_out_what_was_survived(log)]
    _give_to_the_ranks_that_failed(log)
    order, failed = _order(log), _failed(log)
    exits: dict[tuple[int, int | None], RankExit] = {}  # ranks that a launcher named as one range share theirs

    def ended(number: int, rank: _Rank) -> RankExit:
        key = (id(rank), order.get(number))
        if key not in exits:
            exits[key] = _exit(log, rank, order.get(number), failed)
        return exits[key]

    return Evidence(
        job=(_job(log, paths, handled),),
        ranks=tuple(
            RankFacts(rank=number, host=rank.host, facts=(ended(number, rank),))
            for number, rank in sorted(_numbered(log).items())
        ),
        notes=(*_left_out(log),),
    )


def _take(log: _Log, line: LogLine) -> None:
    text = line.text
    if not log.of_a_job and (line.marked or line.collected or is_of_a_job(text)):
        log.of_a_job = True
    if line.suspect and explains_a_failure(text) and len(log.remarks) < MAX_SAID:
        log.remarks.append(text.strip()[:MAX_LINE_CHARACTERS])
    if found := _ANNOUNCED.search(text):
        _announce(log, int(found[1]), int(found[2]))
    if line.rank is None and _of_launcher(log, text):
        return
    if found := _SPAWNED.match(text):
        log.spawned = int(found[1])
        log.of(line.rank).tracebacks.close()
        return
    speaker = _possible(log.spawned if line.rank is None and log.spawned is not None else line.rank)
    who = log.of(speaker)
    sign = line.suspect and shows_a_failure(text)
    before = len(who.tracebacks.errors)
    if not sign and not line.marked and who.goes_on(text):
        who.tracebacks.close()
        who.survived, who.survived_said = len(who.tracebacks.errors), len(who.said)
    in_traceback = who.tracebacks.feed(text, marked=line.marked)
    if who.tracebacks.errors[before:] or (in_traceback and who.first_error is None):
        who.first_error = log.lines if who.first_error is None else who.first_error
    log.at_work = log.at_work or (not sign and shows_health(text))
    if sign:
        who.first_error = log.lines if who.first_error is None else who.first_error
        who.after.clear()
        _remember(log, who, speaker, line)
    if not in_traceback and text.strip():
        who.tail.append(text[:MAX_LINE_CHARACTERS])
    if log.world_size is None and (told := _WORLD.search(text)):
        log.world_size = _possible(int(told[1]))


def _possible(rank: int | None) -> int | None:
    """The number, where a rank or a number of ranks can be so large."""
    return rank if rank is not None and rank <= MOST_RANKS else None


def _announce(log: _Log, rank: int, size: int) -> None:
    """Take the announcement of a rank; one that comes long after the others, or after all of them, is of another start."""
    if log.lines - log.announced_at > LINES_OF_A_START or len(log.announced) >= size or log.failure_lines:
        log.announced.clear()
    log.announced.append(rank)
    log.announced_at, log.world_size = log.lines, size


def _remember(log: _Log, who: _Rank, rank: int | None, line: LogLine) -> None:
    text = line.text.strip()[:MAX_LINE_CHARACTERS]
    if len(who.said) < MAX_SAID and text not in who.said:
        who.said.append(text)
    key = (rank, form_of(text)[:200])
    log.forms[key] = log.forms.get(key, 0) + 1
    if log.forms[key] <= MAX_PER_FORM and len(log.failure_lines) < MAX_FAILURE_LINES:
        moment = time_of(line.stamp, line.text)
        at, clock = moment if moment is not None else (None, "")
        log.failure_lines.append(FailureLine(text=text, rank=rank, number=line.number, at=at, clock=clock))


def _of_launcher(log: _Log, text: str) -> bool:
    """Take a line of a launcher, a scheduler or the kernel; True where it was one and shows nothing of the job's own."""
    found = [*launchers.events_of(text)]
    for event in found:
        _take_event(log, event, text)
    if (rank := launchers.rank_of_mpi(text)) is not None:
        log.mpi_rank, log.launcher = rank, log.launcher or "mpirun"
    elif log.mpi_rank is not None and (code := launchers.code_of_mpi(text)) is not None:
        log.of(log.mpi_rank).code = code
        log.mpi_rank = None
    if log.table.take(text):
        log.launcher = "torchrun"
        log.of(None).tracebacks.close()
        return True
    if _LAUNCHERS_LINE.search(text) and not text.startswith(" "):
        log.launcher = "torchrun"
        if shows_a_failure(text):
            _remember(log, log.of(None), None, LogLine(None, text))
        return _is_no_exception(text)
    if found and shows_a_failure(text):
        _remember(log, log.of(None), None, LogLine(None, text))
    return bool(found) and _is_no_exception(text)


def _is_no_exception(text: str) -> bool:
    return re.match(r"^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b", text) is None


def _take_event(log: _Log, event: launchers.Event, text: str) -> None:
    match event:
        case launchers.Closing(pid=pid):
            log.closing.add(pid)
        case launchers.OutOfMemory(pids=pids):
            log.oom_line = log.oom_line or text.strip()[:MAX_LINE_CHARACTERS]
            log.oom_pids.update(pids)
        case launchers.EndedFromOutside(signal=number):
            log.ended_by = log.ended_by or text.strip()[:MAX_LINE_CHARACTERS]
            log.signal = log.signal if log.signal is not None else number
        case launchers.SeveralNodes():
            log.several_nodes = True
        case launchers.LocalRankEnded(launcher=launcher):
            log.launcher = launcher
            log.local.append(event)
        case launchers.SomebodyEnded(code=code, launcher=launcher):
            log.launcher = log.launcher or launcher
            if all(code != end.exit_code for end in log.ends):
                log.ends.append(RankExit(exit_code=code))
        case launchers.RankEnded(rank=rank, code=code, launcher=launcher, pid=pid):
            log.launcher = log.launcher or launcher
            if launcher != "Slurm" or log.launcher == "Slurm":  # a task may be a torchrun, and no rank
                log.of(rank).code, log.of(rank).pid = code, pid
        case launchers.RanksEnded(ranks=ranges, code=code, launcher=launcher):
            log.launcher = log.launcher or launcher
            if log.launcher == launcher:
                for ranks in ranges:
                    _take_range(log, ranks, code)


def _take_range(log: _Log, named: range, code: int) -> None:
    """All ranks of a range ended alike: those of which nothing else is known are one object."""
    ranks = range(named.start, min(named.stop, MOST_RANKS))[: MAX_NAMED_IN_RANGES - log.named_in_ranges]
    log.named_in_ranges += len(ranks)
    log.left_out_of_ranges += max(0, named.stop - named.start) - len(ranks)
    alike = _Rank(code=code, of_a_range=True)
    for rank in ranks:
        known = log.ranks.get(rank)
        if known is None:
            if log.ranks_in_ranges >= MAX_RANKS_IN_RANGES:
                log.left_out_of_ranges += 1
                continue
            log.ranks_in_ranges += 1
        if known is None or known.of_a_range:
            log.ranks[rank] = alike
        else:
            known.code, known.pid = code, None


def _left_out(log: _Log) -> Iterator[str]:
    """Said of ranks that a launcher named in ranges and that were not taken."""
    if log.left_out_of_ranges:
        yield (
            f"not used: {log.left_out_of_ranges:,} of the ranks in ranges such as `tasks 0-99`: at most "
            f"{MAX_RANKS_IN_RANGES:,} ranks of ranges are read, and none from {MOST_RANKS:,} on"
        )


def _take_over_the_table(log: _Log) -> None:
    for row in log.table.rows:
        rank = log.of(row.rank)
        rank.host, rank.ended_at = row.host, row.ended_at
        if row.code is not None:
            rank.code, rank.pid = row.code, row.pid
        row.tracebacks.close()
        rank.tracebacks.errors += row.tracebacks.errors
        if row.tracebacks.errors and rank.first_error is None:
            rank.first_error = log.lines
    log.several_nodes = log.several_nodes or len({row.host for row in log.table.rows}) > 1


def _give_local_ranks_their_ends(log: _Log) -> None:
    """On one node a local rank is the rank; on several nothing shows which it is, unless the table does."""
    seen = [*_numbered(log)]
    pids = {rank.pid for rank in log.ranks.values()}
    for end in log.local:
        if end.pid in pids and end.pid is not None:
            continue
        if log.several_nodes or (seen and max(seen) > end.local_rank + 7 and end.local_rank not in seen):
            log.ends.append(RankExit(exit_code=end.code, pid=end.pid))
        else:
            rank = log.of(end.local_rank)
            rank.code, rank.pid = end.code, end.pid


def _absent_from_the_table(log: _Log) -> None:
    """A rank of a single node that the table leaves out ended well: torchrun lists all that failed or that it ended."""
    listed = {row.rank for row in log.table.rows if row.pid is not None}
    hosts = {row.host for row in log.table.rows}
    if not log.table.whole or len(hosts) != 1 or log.closing:
        return
    size = max([*_numbered(log), (log.world_size or 0) - 1]) + 1
    if size > MAX_RANKS_OF_A_NODE:
        return
    for number in range(size):
        if number not in listed:
            log.of(number).code, log.of(number).host = 0, next(iter(hosts))


def _shows_an_end(log: _Log) -> bool:
    """Whether anything but exceptions shows that the job failed."""
    ended = any(rank.code for rank in log.ranks.values())
    return ended or bool(log.closing or log.ended_by or log.oom_line or log.ends)


def _take_out_what_was_survived(log: _Log) -> Iterator[RankError]:
    """Exceptions, and lines that show a failure, after which the same rank went on as before: somebody caught them."""
    for number, rank in log.ranks.items():
        errors = rank.tracebacks.errors
        yield from errors[: rank.survived]
        del errors[: rank.survived]
        survived = {*rank.said[: rank.survived_said]} - {*rank.said[rank.survived_said :]}
        del rank.said[: rank.survived_said]
        log.failure_lines = [line for line in log.failure_lines if line.rank != number or line.text not in survived]


def _give_to_the_ranks_that_failed(log: _Log) -> None:
    """Exceptions without a rank belong to the ranks that failed without one, where there are as many and all are alike."""
    nobody = log.ranks.get(None, _Rank())
    own = [error for error in nobody.tracebacks.errors if not _is_launchers(error)]
    silent = [
        number
        for number, rank in _numbered(log).items()
        if (rank.code or 0) > 0 and not rank.tracebacks.errors and rank.pid not in log.closing
    ]
    listed = {row.pid for row in log.table.rows}
    if any(end.pid not in listed for end in log.local):
        return  # this line is of the first rank that torchrun looked at, and the exception may be another one's
    if len(own) == len(silent) and len({(error.type, error.stack) for error in own}) == 1:
        nobody.tracebacks.errors.clear()
        for rank, error in zip(map(log.of, silent), own, strict=True):
            rank.tracebacks.errors.append(error)
            rank.first_error = nobody.first_error


def _order(log: _Log) -> Mapping[int, int]:
    """By rank, the place of its failure among all: by the clock where every rank's first line shows one, else by lines."""
    failed = {number: rank for number, rank in _numbered(log).items() if rank.first_error is not None}
    clock = {line.rank: line.at for line in reversed(log.failure_lines)}
    times = {number: clock.get(number) for number in failed}
    if None in times.values():
        moments: dict[int, float] = {number: float(rank.first_error or 0) for number, rank in failed.items()}
    else:
        moments = {number: at for number, at in times.items() if at is not None}
    places = {moment: place for place, moment in enumerate(sorted({*moments.values()}))}
    return {number: places[moment] for number, moment in moments.items()}


def _numbered(log: _Log) -> dict[int, _Rank]:
    return {number: rank for number, rank in log.ranks.items() if number is not None}


def _exit(log: _Log, rank: _Rank, order: int | None, failed: _Failed) -> RankExit:
    ours = _ended_by_launcher(log, rank, failed)
    killed = rank.code == -9 and not ours
    return RankExit(
        exit_code=rank.code,
        error=_last(rank.tracebacks.errors) if rank.code != 0 else None,
        ended_by_launcher=ours,
        ended_at=rank.ended_at,
        order=order,
        tail=tuple(dict.fromkeys([*rank.said, *rank.tail])),
        kernel_said=log.oom_line if killed and (not log.oom_pids or rank.pid in log.oom_pids) else None,
        pid=rank.pid,
    )


class _Failed(NamedTuple):
    """The ranks that ended badly and not by SIGTERM, which a launcher may have answered by ending the others."""

    any: bool
    """Whether there is one."""
    first_at: float | None
    """When the first of them ended, in seconds since the epoch; None where no table shows it."""


def _failed(log: _Log) -> _Failed:
    failed = [rank for rank in log.ranks.values() if rank.code not in {None, 0, -15}]
    return _Failed(bool(failed), min((rank.ended_at for rank in failed if rank.ended_at is not None), default=None))


def _ended_by_launcher(log: _Log, rank: _Rank, failed: _Failed) -> bool:
    """Whether the launcher ended this rank: it says so, or it sent SIGTERM, and SIGKILL 30 s later, after another's end."""
    if rank.pid is not None and rank.pid in log.closing:
        return True
    if rank.code == -15:
        return failed.any
    if rank.code != -9 or rank.ended_at is None or failed.first_at is None:
        return False
    return rank.ended_at - failed.first_at >= GRACE_SECONDS


GRACE_SECONDS = 25.0  # torchrun waits for 30 s between SIGTERM and SIGKILL; tables show whole seconds


def _is_launchers(error: RankError) -> bool:
    """Whether a launcher passes on with it that a rank failed; `subprocess` raises the same type for a tool of the user's."""
    if error.type != "CalledProcessError":
        return error.type in LAUNCHERS_OWN
    return "python" in error.message or not error.stack or any(is_launchers(frame.file) for frame in error.stack)


def _last(errors: Sequence[RankError]) -> RankError | None:
    """The exception that ended a rank: its last one, with the first as its cause where they were told apart."""
    own = [error for error in errors if not _is_launchers(error)]
    if not own:
        return None
    last = own[-1]
    return replace(last, cause=own[0]) if len(own) > 1 and last.cause is None and own[0] != last else last


def _job(log: _Log, paths: Sequence[Path], handled: Sequence[RankError]) -> JobLog:
    nobody = log.ranks.get(None, _Rank())
    cut = [error for error in nobody.tracebacks.cut if not any(is_launchers(frame.file) for frame in error.stack)]
    return JobLog(
        files=tuple(map(str, paths)),
        lines=log.lines,
        launcher=log.launcher,
        world_size=log.world_size,
        errors=tuple(error for error in nobody.tracebacks.errors if not _is_launchers(error)),
        cut=tuple(cut),
        ends=tuple(log.ends),
        said=tuple(dict.fromkeys([*nobody.said, *([log.oom_line] if log.oom_line else [])])),
        failure_lines=tuple(log.failure_lines),
        remarks=tuple(log.remarks),
        ended_by=log.ended_by,
        signal=log.signal,
        closed=len(log.closing),
        out_of_memory=log.oom_line,
        handled=tuple(handled),
        at_work=log.at_work,
        announced=tuple(log.announced),
        of_a_job=log.of_a_job,
    )
